"""Base images: the first create of a data folder makes one and shows how far it is."""
import pathlib
import shutil
import time

import pytest

import torus
from tpu_vm import DATA


def test_the_operation_shows_progress(local):
    if local.image_was_there:
        pytest.skip("the base image was there already; remove the test data folder to make it anew")
    details = local.first_create_details
    assert any("making base image" in d for d in details), details
    assert len(details) > 2, "the steps follow each other"


def test_a_stop_does_not_wait_for_the_image(local):
    """Another service, with a data folder of its own: stopped in the middle, then started again."""
    folder = DATA.parent / f"{DATA.name}-image"
    shutil.rmtree(folder, ignore_errors=True)
    service = torus.Service(folder, backend="local").start()
    try:
        operation = service.create("n1")
        torus.eventually(lambda: "making base image" in service.ok("GET", "/v2/" + operation["name"])
                         ["metadata"].get("statusDetail", ""))
        started = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - started < 10
        assert str(folder) not in pathlib.Path("/proc/mounts").read_text()
        service.start()
        service.wait(service.ok("DELETE", f"/v2/{torus.PARENT}/nodes/n1"))
        assert "error" in service.wait(operation)
    finally:
        service.stop()
        shutil.rmtree(folder)
