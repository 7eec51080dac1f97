"""TPU VMs on this machine, which needs root: without it these tests are skipped and say so."""
import os
import shutil
import time

import pytest

from tpu_vm import CREATE, DATA, LocalService, Witness, leftovers


def pytest_collection_modifyitems(items):
    if os.geteuid() == 0:
        return
    for item in items:
        if "/vm/" in str(item.path):
            item.add_marker(pytest.mark.skip(reason="TPU VMs need root"))


def watch_create(service, node):
    """Creates and deletes a node; returns what its operation said on the way."""
    operation, details = service.create(node), []
    while not operation["done"]:
        time.sleep(0.05)
        operation = service.ok("GET", "/v2/" + operation["name"])
        detail = operation["metadata"].get("statusDetail")
        if detail and detail not in details:
            details.append(detail)
    assert "response" in operation, operation
    service.vm("delete", node, "--quiet")
    return details


@pytest.fixture(scope="session")
def local(tmp_path_factory):
    service = LocalService(tmp_path_factory.mktemp("home"))
    service.log.unlink(missing_ok=True)
    service.image_was_there = any((DATA / "data/images").glob("[0-9a-f]*/rootfs"))
    service.start()
    service.first_create_details = watch_create(service, "first")
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


@pytest.fixture(scope="module")
def neighbour(local):
    """Another VM, that nobody attacks from inside."""
    local.vm("create", "neighbour", *CREATE)
    yield "neighbour"
    local.vm("delete", "neighbour", "--quiet")


@pytest.fixture
def witness(local, neighbour):
    return Witness(local, neighbour)
