"""The service and the workers killed at every step of a TPU VM's life; hosts, disks and clocks that fail.

After a restart every operation ends, every node is READY, STOPPED, gone or in a stated error, nothing
is left over, and what was acknowledged is there.
"""
import os
import pathlib
import signal
import subprocess
import time

import pytest

import torus
from faults.points import SOAK, Faults, has_died, sample, start_or_die
from service.test_faults import CHANGES, LOST, all_operations, attempt
from tpu_vm import DATA, leftovers, note_uids


@pytest.fixture
def faults(local, tmp_path):
    made = Faults(local, tmp_path)
    yield made
    made.clear()
    if not has_died(local):
        local.kill()
    local.start()
    remove(local)


def remove(local):
    if local.node("n1"):
        local.wait(local.ok("DELETE", f"/v2/{torus.PARENT}/nodes/n1"), 120)


def worker_pid():
    """The process id in the VM's folder; None: there is none now."""
    for path in (DATA / "data/vms").glob("*/0/run/lock"):
        try:
            return int(path.read_text())
        except (FileNotFoundError, ValueError):
            pass
    return None


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def prepare(local, state):
    """The node n1 in this state, without faults."""
    note_uids()
    remove(local)
    if state is None:
        return
    local.wait(local.create("n1"), 120)
    if state == "STOPPED":
        local.wait(local.ok("POST", f"/v2/{torus.PARENT}/nodes/n1:stop", {}), 120)


def begin(local, faults, change, fault):
    """The state before the change, with the fault set in the service and in the worker; False: the
    service has met it already."""
    prepare(local, change.before)
    local.stop()
    faults.set(fault)
    if not start_or_die(local):
        return False
    if change.before:
        try:
            torus.eventually(lambda: faults.struck or local.node("n1")["state"] == change.before, seconds=60)
        except LOST:
            pass
        replace_worker(faults)
    return not (faults.struck and has_died(local))


def replace_worker(faults):
    """Kills the VM's worker, so that the next one has the environment of the service of now."""
    pid = worker_pid()
    if pid is None:
        return
    os.kill(pid, signal.SIGKILL)
    torus.eventually(lambda: faults.struck or (worker_pid() not in (None, pid) and alive(worker_pid())),
                     seconds=60, what="another worker")


def settle(local, operation, faults):
    """Waits for the operation's end, or for the service's."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and not (faults.struck and has_died(local)):
        try:
            answer = local.ok("GET", "/v2/" + operation["name"])
            if answer["done"]:
                return answer
        except LOST:
            pass
        time.sleep(0.01)
    assert has_died(local), f"{operation['name']} does not end"
    return None


@pytest.mark.parametrize("verb", CHANGES)
def test_killed_at_every_step(local, faults, verb):
    change = CHANGES[verb]
    assert begin(local, faults, change, "")
    first = len(faults.lines())
    done = settle(local, attempt(local, change), faults)
    assert "response" in done, done
    points = faults.passed(since=first)
    rooms = {p.split(".")[0] for p in points}
    assert {"store", "controller", "gateway", "backend"} <= rooms and "worker" in rooms, rooms
    walked, struck = sample(points), 0
    for point in walked:
        faults.clear()
        if has_died(local):
            local.start()
        else:
            local.stop()
            local.start()
        operation = None
        if begin(local, faults, change, point):
            operation = attempt(local, change)
            if operation:
                settle(local, operation, faults)
        struck += faults.struck
        faults.clear()
        if not has_died(local):
            local.kill()  # one that has not met its fault yet must not meet it now
        local.start()
        check_all_is_well(local, change, operation, point)
    remove(local)
    assert leftovers() == []
    print(f"{verb}: {struck} of {len(walked)} points struck, of {len(points)}")
    assert struck >= len(walked) * 2 // 3, f"only {struck} of {len(walked)} points were met again"


def check_all_is_well(local, change, operation, point):
    if operation:
        done = local.wait(operation, 120)
        assert "response" in done, (point, done)
    elif not change.effect(local.node("n1")):
        status, answer = change.request(local)
        assert status in (200, 400, 404, 409), (point, answer)
    torus.eventually(lambda: change.effect(local.node("n1")), seconds=120, what=f"the effect after {point}")
    torus.eventually(lambda: all(o["done"] for o in all_operations(local)),
                     what=f"every operation's end after {point}")
    node = local.node("n1")
    if node is None:
        torus.eventually(lambda: leftovers() == [], what=f"nothing left after {point}: {leftovers()}")
    elif node["state"] == "READY":
        address = node["networkEndpoints"][0]["ipAddress"]
        assert subprocess.run(["bash", "-c", f"exec 3<>/dev/tcp/{address}/22; head -c4 <&3"], timeout=10,
                              capture_output=True).stdout == b"SSH-", point


def test_a_worker_that_hangs_is_replaced_and_the_vm_lives_on(local, faults):
    prepare(local, "READY")
    boot = local.says("n1", "stat -c %Y /proc/1")
    pid = worker_pid()
    os.kill(pid, signal.SIGSTOP)
    torus.eventually(lambda: worker_pid() not in (None, pid) and not alive(pid), seconds=90,
                     what="another worker in place of the one that hangs")
    torus.eventually(lambda: local.node("n1")["state"] == "READY", seconds=30)
    assert local.says("n1", "stat -c %Y /proc/1") == boot
    assert "lives but has not dialled" in local.log.read_text()


# Each takes the time in which a hang is noticed, 20 to 40 s.
HANGS = ["worker.lock", "worker.config", "worker.rules", "worker.started"] if SOAK else ["worker.lock"]


@pytest.mark.parametrize("point", HANGS)
def test_a_worker_that_hangs_in_mid_create_does_not_hold_it_up_for_ever(local, faults, point):
    local.stop()
    faults.set(point + ":1=stop")
    local.start()
    operation = local.create("n1")
    torus.eventually(lambda: faults.struck, seconds=30)
    assert "response" in local.wait(operation, 120)
