"""TPU VMs on this machine, which needs root: without it these tests are skipped and say so."""
import os
import shutil

import pytest

import torus
from tpu_vm import CREATE, DATA, LocalService, leftovers


def pytest_collection_modifyitems(items):
    if os.geteuid() == 0:
        return
    for item in items:
        if "/vm/" in str(item.path):
            item.add_marker(pytest.mark.skip(reason="TPU VMs need root"))


@pytest.fixture(scope="session")
def local(tmp_path_factory):
    service = LocalService(tmp_path_factory.mktemp("home"))
    service.log.unlink(missing_ok=True)
    service.start()
    yield service
    if service.process is None:
        service.start()
    service.delete_all()
    service.stop()
    assert leftovers() == []
    shutil.rmtree(DATA / "data/vms", ignore_errors=True)


@pytest.fixture(scope="module")
def vm(local, request):
    """A READY v2-8 for one module's tests."""
    node = "vm-" + request.module.__name__.split("_")[-1]
    local.vm("create", node, *CREATE)
    yield node
    local.vm("delete", node, "--quiet")
