"""The service killed at every step of every change: what it had acknowledged is there, the rest ends.

No VMs here (tests/vm/test_faults_vm.py has them): the points are those of the store, the controller and
the gateway, and there are few enough to walk them all.
"""
import http.client
import urllib.error

import pytest

import torus
from faults.points import Faults, has_died, start_or_die

NAME = f"/v2/{torus.PARENT}/nodes/n1"
LOST = (OSError, http.client.HTTPException, urllib.error.URLError)


class Change:
    """One verb: the node's state before it, the request, and how its effect shows."""

    def __init__(self, before, request, effect):
        self.before, self.request, self.effect = before, request, effect


CHANGES = {
    "create": Change(None, lambda s: s.call("POST", f"/v2/{torus.PARENT}/nodes?nodeId=n1", torus.NODE),
                     lambda node: node and node["state"] == "READY"),
    "stop": Change("READY", lambda s: s.call("POST", NAME + ":stop", {}),
                   lambda node: node["state"] == "STOPPED"),
    "start": Change("STOPPED", lambda s: s.call("POST", NAME + ":start", {}),
                    lambda node: node["state"] == "READY"),
    "update": Change("READY", lambda s: s.call("PATCH", NAME + "?updateMask=labels", {"labels": {"a": "b"}}),
                     lambda node: node.get("labels") == {"a": "b"}),
    "delete": Change("READY", lambda s: s.call("DELETE", NAME), lambda node: node is None),
}


def prepare(service, state):
    """Brings the node n1 into the state that the change begins in."""
    node = service.node("n1")
    if node:
        assert "response" in service.wait(service.ok("DELETE", NAME))
    if state is None:
        return
    service.wait(service.create("n1"))
    if state == "STOPPED":
        service.wait(service.ok("POST", NAME + ":stop", {}))


def attempt(service, change):
    """The operation if the service acknowledged the change; None if it died before."""
    try:
        status, answer = change.request(service)
        assert status == 200, answer
        return answer
    except LOST:
        return None


def finish(service, operation):
    try:
        return service.wait(operation)
    except LOST:
        return None


def all_operations(service):
    return service.ok("GET", f"/v2/{torus.PARENT}/operations").get("operations", [])


@pytest.fixture
def faults(service, tmp_path):
    return Faults(service, tmp_path)


def walk(service, faults, change):
    """Runs the change once and returns the points that it passes."""
    prepare(service, change.before)
    service.stop()
    faults.set()
    service.start()
    begin = len(faults.lines())
    finish(service, attempt(service, change))
    return faults.passed(since=begin)


@pytest.mark.parametrize("verb", CHANGES)
def test_killed_at_every_step(service, faults, verb):
    change = CHANGES[verb]
    points = walk(service, faults, change)
    assert {"store.commit:1", "store.committed:1", "gateway.reply:1", "gateway.replied:1",
            "controller.converge:1"} <= {p.split(":")[0] + ":1" for p in points}
    struck = 0
    for point in points:
        faults.clear()
        service.kill()
        service.start()
        prepare(service, change.before)
        service.stop()
        faults.set(point)
        operation = None
        if start_or_die(service):
            operation = attempt(service, change)
            if operation:
                finish(service, operation)
        struck += faults.struck
        faults.clear()
        if not has_died(service):
            service.kill()  # one that has not met its fault yet must not meet it now
        service.start()
        if operation:
            done = service.wait(operation)
            assert "response" in done, (point, done)
        elif not change.effect(service.node("n1")):
            # Not acknowledged, so it may be undone or under way: the user tries again.
            status, answer = change.request(service)
            assert status in (200, 400, 404, 409), (point, answer)
        torus.eventually(lambda: change.effect(service.node("n1")), what=f"the effect after {point}")
        torus.eventually(lambda: all(o["done"] for o in all_operations(service)),
                         what=f"every operation's end after {point}")
    assert struck >= len(points) * 3 // 4, f"only {struck} of {len(points)} points were met again"
