"""TPU VMs on a host whose disk fails or fills, whose clock jumps, whose engine goes away.

A create on such a host ends with an error that says what is wrong, or is done once the host is well;
VMs that run go on, and nothing is left over.
"""
import errno
import os
import pathlib
import shutil

import pytest

import torus
from faults.host import BadHost
from tpu_vm import CREATE, DATA, leftovers

NODES = f"/v2/{torus.PARENT}/nodes"


@pytest.fixture
def bad_host(local, tmp_path):
    local.stop()
    host = BadHost(local, tmp_path)
    local.start()
    yield host
    host.heal_disk()
    host.shift_clock(0)
    local.delete_all()
    torus.eventually(lambda: leftovers() == [], what="the end of the last worker")
    local.stop()
    host.leave()
    local.start()


def detail(local, operation):
    """What the operation says while it is under way, or the error with which it ended."""
    now = local.ok("GET", "/v2/" + operation["name"])
    return now.get("error", {}).get("message") or now["metadata"].get("statusDetail", "")


def test_a_disk_that_fails_during_a_create_is_named_and_the_create_is_done_when_it_heals(local, bad_host):
    bad_host.fail_writes(DATA / "data/vms", errno.EIO)
    operation = local.create("n1")
    torus.eventually(lambda: "Input/output error" in detail(local, operation), what="the reason")
    bad_host.heal_disk()
    assert "response" in local.wait(operation, 120)
    assert local.says("n1", "whoami") == "dev"


def test_a_full_disk_ends_a_create_with_the_reason_and_leaves_nothing(local, bad_host):
    bad_host.fail_writes(DATA / "data/vms", errno.ENOSPC)
    done = local.wait(local.create("n1"), 120)
    assert done["error"]["code"] == 8 and "No space left on device" in done["error"]["message"], done
    assert str(DATA) in done["error"]["message"], "which disk"
    torus.eventually(lambda: local.node("n1") is None)
    torus.eventually(lambda: leftovers() == [])
    bad_host.heal_disk()
    assert "response" in local.wait(local.create("n1"), 120)


def test_a_disk_that_fails_leaves_running_vms_alone_and_can_delete_them(local, bad_host):
    local.wait(local.create("n1"), 120)
    boot = local.says("n1", "stat -c %Y /proc/1")
    bad_host.fail_writes(DATA / "data/vms", errno.EIO)
    assert local.says("n1", "stat -c %Y /proc/1") == boot
    assert "response" in local.wait(local.ok("DELETE", f"{NODES}/n1"), 120)


@pytest.mark.parametrize("jump", [86_400 * 400, -86_400 * 400])
def test_a_clock_that_jumps_harms_no_vm(local, bad_host, jump):
    local.wait(local.create("n1"), 120)
    boot = local.says("n1", "stat -c %Y /proc/1")
    bad_host.shift_clock(jump)
    local.wait(local.create("n2"), 120)
    assert local.says("n2", "whoami") == "dev"
    assert local.node("n1")["state"] == "READY" and local.says("n1", "stat -c %Y /proc/1") == boot
    assert "response" in local.wait(local.ok("POST", f"{NODES}/n1:stop", {}), 120)
    bad_host.shift_clock(0)
    assert "response" in local.wait(local.ok("POST", f"{NODES}/n1:start", {}), 120)


def test_an_engine_that_goes_away_is_named_and_running_vms_keep_theirs(local, tmp_path):
    folder = DATA / "engine"
    folder.mkdir()
    engine = folder / "xla_cpu.so"
    shutil.copy(torus.BINARY.parent / "engine/xla_cpu.so", engine)
    local.stop()
    local.flags.append(f"--engine={engine}")
    local.start()
    try:
        local.wait(local.create("n1"), 120)
        engine.unlink()
        done = local.wait(local.create("n2"), 120)
        assert str(engine) in done["error"]["message"], done
        torus.eventually(lambda: local.node("n2") is None)
        assert local.says("n1", "ls -l $TPU_LIBRARY_PATH $TORUS_ENGINE | wc -l") == "2"
        for verb in ("stop", "start"):
            assert "response" in local.wait(local.ok("POST", f"{NODES}/n1:{verb}", {}), 120), verb
    finally:
        local.delete_all()
        local.stop()
        local.flags.pop()
        local.start()
        shutil.rmtree(folder)


def test_a_dead_sshd_is_started_again_while_the_job_lives_on(local, vm):
    local.ssh(vm, "nohup sleep 4711 >/dev/null 2>&1 &")
    before = local.says(vm, "pgrep -o -x sshd")
    local.ssh(vm, "sudo pkill -o -x sshd", check=False)
    torus.eventually(lambda: local.ssh(vm, "true", check=False).returncode == 0, seconds=60)
    assert local.says(vm, "pgrep -o -x sshd") != before
    assert local.says(vm, "pgrep -cf 'sleep 4711'") == "1"
    assert local.node(vm)["state"] == "READY"


SECRET = "s3cr3t-Tok3n-4712"


def test_nothing_secret_of_a_vm_is_logged_or_shown_to_others(local):
    """A start-up script, metadata and guest attributes: in no log of the host, in no command line."""
    operation = local.create("n1", metadata={"startup-script": f"#!/bin/sh\necho {SECRET} > /tmp/done",
                                             "token": SECRET})
    try:
        assert "response" in local.wait(operation, 120)
        torus.eventually(lambda: local.says("n1", "sudo cat /tmp/done") == SECRET)
        local.ssh("n1", f"curl -s -X PUT -H Metadata-Flavor:Google --data {SECRET} "
                        "http://169.254.169.254/computeMetadata/v1/instance/guest-attributes/a/b")
        logs = [local.log, *pathlib.Path(DATA / "data/vms").glob("*/0/log/*")]
        assert len(logs) >= 2
        for log in logs:
            assert SECRET.encode() not in log.read_bytes(), log
        for command in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = command.read_bytes()
            except OSError:
                continue
            own = int(command.parent.name) == os.getpid()
            assert own or SECRET.encode() not in words, words
    finally:
        local.vm("delete", "n1", "--quiet")
