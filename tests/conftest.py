"""What end-to-end tests share. TORUS names the binary under test (default: build/release/torus)."""
import pathlib
import sys
import uuid

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import torus  # noqa: E402


@pytest.fixture
def new_service(tmp_path):
    """new_service(...) makes a Service that ends with the test; it is not started yet."""
    services = []

    def make(**options):
        services.append(torus.Service(tmp_path / f"service{len(services)}", **options))
        return services[-1]

    yield make
    for service in services:
        service.stop()


@pytest.fixture
def service(new_service):
    """A service on the fake backend, serving."""
    return new_service().start()


@pytest.fixture
def node(tmp_path):
    """The description of a node of its own, so that nobody else has its chips."""
    file = tmp_path / "slice"
    file.write_text(f"ACCELERATOR_TYPE: 'v2-8'\nTORUS_NODE_UID: 'test-{uuid.uuid4().hex}'\n")
    return str(file)
