"""The service on a host whose disk fails or whose clock jumps: clear errors, and nothing is lost."""
import errno
import threading
import time

import pytest

import torus
from faults.host import BadHost

NODES = f"/v2/{torus.PARENT}/nodes"


@pytest.fixture
def bad_host(new_service, tmp_path):
    return BadHost(new_service(), tmp_path)


def names(service):
    return {n["name"].rsplit("/", 1)[1] for n in service.ok("GET", NODES).get("nodes", [])}


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fails_refuses_changes_and_keeps_what_it_acknowledged(bad_host, error):
    service = bad_host.service.start()
    service.wait(service.create("before"))
    bad_host.fail_writes(service.folder / "data", error)
    for i in range(5):
        status, answer = service.call("POST", f"{NODES}?nodeId=refused{i}", torus.NODE)
        assert status in (429, 500, 503), answer
        assert "disk" in answer["error"]["message"] and "torus.db" in answer["error"]["message"], answer
    assert names(service) == {"before"}, "reads go on, and show nothing that was refused"
    bad_host.heal_disk()
    service.wait(service.create("after"))
    assert names(service) == {"before", "after"}
    service.kill()
    service.start()
    assert names(service) == {"before", "after"}


def test_changes_whose_controller_meets_a_failing_disk_are_finished_when_it_heals(bad_host):
    service = bad_host.service.start()
    operations = []  # of those creates that were acknowledged

    def create(names):
        for name in names:
            status, answer = service.call("POST", f"{NODES}?nodeId={name}", torus.NODE)
            if status == 200:
                operations.append(answer)

    rounds = 0
    while "could not be read or written" not in service.log.read_text():  # a controller has met it
        rounds += 1
        assert rounds <= 100, "no controller was at work when the disk failed"
        bad_host.heal_disk()
        creator = threading.Thread(target=create, args=([f"n{rounds}-{i}" for i in range(40)],))
        creator.start()
        time.sleep(rounds % 10 / 200)  # fails while there are creates, sooner or later among them
        bad_host.fail_writes(service.folder / "data")
        creator.join()
        time.sleep(0.2)
    bad_host.heal_disk()
    assert all("response" in service.wait(operation) for operation in operations)


@pytest.mark.parametrize("jump", [86_400 * 400, -86_400 * 400, 3_700])
def test_a_clock_that_jumps_loses_no_node_and_ends_every_operation(bad_host, jump):
    service = bad_host.service.start()
    service.wait(service.create("before"))
    under_way = service.create("under-way")
    bad_host.shift_clock(jump)
    assert "response" in service.wait(under_way)
    assert "response" in service.wait(service.create("after"))
    assert names(service) == {"before", "under-way", "after"}
    assert "response" in service.wait(service.ok("POST", f"{NODES}/before:stop", {}))
    bad_host.shift_clock(0)
    assert "response" in service.wait(service.ok("DELETE", f"{NODES}/after"))
    service.kill()
    service.start()
    assert names(service) == {"before", "under-way"}
    assert service.node("before")["state"] == "STOPPED"
