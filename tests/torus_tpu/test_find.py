"""Where torus_tpu looks for a TensorFlow program's TPU, and what it says where there is none."""
import contextlib
import pathlib
import socket
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "packaging/torus_tpu"), str(ROOT / "tests/cli")]
from fake_service import FakeService  # noqa: E402
from torus_tpu import NoTpu, find as finder  # noqa: E402

PLACE = {"CLOUDSDK_CORE_PROJECT": "torus", "TORUS_ZONE": "us-central1-a"}


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch):
    """No chips here, and nobody at the worker's port."""
    monkeypatch.setattr(finder, "_has_chips", lambda: False)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setattr(finder, "PORT", unused.getsockname()[1])


@pytest.fixture
def worker(monkeypatch):
    """Somebody listens at a worker's port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setattr(finder, "PORT", listener.getsockname()[1])
        yield f"127.0.0.1:{finder.PORT}"


@pytest.fixture
def torus_service():
    with contextlib.closing(FakeService()) as service:
        yield service


def find(asked=None, has_kernels=True, **environ):
    return finder.find(asked, has_kernels, environ)


def refusal(*arguments, **environ):
    with pytest.raises(NoTpu) as error:
        find(*arguments, **environ)
    return str(error.value)


def test_this_process_has_it():
    assert find(TPU_LIBRARY_PATH="/opt/torus/libtpu.so", TORUS_ENGINE="x") == ("local", "this process's own TPU", True)
    assert find(TPU_NAME="local") == ("local", "this process's own TPU", None)


def test_stock_tensorflow_in_a_tpu_vm_asks_the_worker(worker):
    assert find(None, False, TPU_LIBRARY_PATH="/opt/torus/libtpu.so").tpu == f"grpc://{worker}"


@pytest.mark.parametrize("written", ["grpc://{}", "{}"])
def test_an_address(worker, written):
    found = find(TPU_NAME=written.format(worker))
    assert found.tpu == f"grpc://{worker}" and found.where == f"the worker at {worker}"


def test_an_address_without_a_port(worker):
    assert find("grpc://127.0.0.1").tpu == f"grpc://{worker}"


def test_what_the_program_names_goes_first(worker):
    assert find("local", TPU_NAME=worker).tpu == "local"


def test_a_node_that_torus_knows(worker, torus_service):
    torus_service.add_node("my-tpu", networkEndpoints=[{"ipAddress": "127.0.0.1"}])
    found = find("my-tpu", TORUS_ENDPOINT=torus_service.url, **PLACE)
    assert found == (f"grpc://{worker}", f"node my-tpu, its worker at {worker}", True)


def test_a_name_in_a_tpu_vm_is_for_its_metadata_server():
    assert find("my-tpu", TPU_API_DISCOVERY_URL="http://metadata", TORUS_ENDPOINT="http://127.0.0.1:1").tpu == "my-tpu"


def test_nothing_is_known():
    said = refusal()
    assert "no TPU is known here" in said and "TPU_NAME=grpc://ADDRESS:8470" in said


def test_a_tpu_without_kernels_for_it():
    said = refusal(None, False, TPU_LIBRARY_PATH="/opt/torus/libtpu.so")
    assert "has no kernels" in said and "--version=2.20.0" in said
    assert "install tensorflow-tpu" in refusal("local", False)


def test_nobody_answers():
    begin = time.monotonic()
    said = refusal(f"grpc://127.0.0.1:{finder.PORT}")
    assert f"nobody answers at 127.0.0.1:{finder.PORT} (Connection refused)" in said and "READY" in said
    assert time.monotonic() - begin < 3 * finder.SECONDS, "TensorFlow alone would wait for ever"


@pytest.mark.parametrize("address", ["http://127.0.0.1", "grpc://", "grpc://a:b", "a:99999"])
def test_no_address(address):
    assert f'"{address}" is no address of a TPU' in refusal(address)


@pytest.mark.parametrize("state", ["CREATING", "STOPPED", "PREEMPTED"])
def test_a_node_that_is_not_ready(torus_service, state):
    torus_service.add_node("my-tpu", state=state)
    said = refusal("my-tpu", TORUS_ENDPOINT=torus_service.url, **PLACE)
    assert f'the TPU "my-tpu" is {state}, not READY' in said


def test_a_node_that_is_not_there(torus_service):
    said = refusal("none", TORUS_ENDPOINT=torus_service.url, **PLACE)
    assert 'there is no TPU "none" (projects/torus/locations/us-central1-a/nodes/none)' in said


def test_a_name_without_a_zone_or_a_service_that_is_gone():
    assert "set its zone" in refusal("t", TORUS_ENDPOINT="http://127.0.0.1:1", CLOUDSDK_CORE_PROJECT="p")
    assert "set its project" in refusal("t", TORUS_ENDPOINT="http://127.0.0.1:1")
    assert "Torus does not answer at http://127.0.0.1:1" in refusal("t", TORUS_ENDPOINT="http://127.0.0.1:1", **PLACE)
