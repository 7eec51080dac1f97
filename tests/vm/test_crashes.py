"""Kill -9 of the service, of workers, of a whole host: nothing is lost and nothing is orphaned."""
import os
import pathlib
import signal
import subprocess
import time

import torus
from tpu_vm import CREATE, DATA, leftovers, note_uids, seen_uids, tag


def test_the_service_is_killed_in_the_middle_of_a_create(local):
    operation = local.create("c1")
    local.kill()
    local.start()
    assert local.wait(operation)["response"]["state"] == "READY"
    assert local.says("c1", "whoami") == "dev"
    local.vm("delete", "c1", "--quiet")


def test_a_vm_outlives_its_service(local, vm):
    boot = local.says(vm, "stat -c %Y /proc/1; touch /tmp/mark")
    worker = local.worker_pid(vm)
    local.kill()
    time.sleep(0.5)
    local.start()
    assert local.node(vm)["state"] == "READY"
    assert local.says(vm, "stat -c %Y /proc/1; ls /tmp/mark").split()[0] == boot
    assert local.worker_pid(vm) == worker
    assert local.stop() == 0, "a drained stop leaves VMs alone too"
    local.start()
    assert local.says(vm, "stat -c %Y /proc/1") == boot


def test_a_killed_worker_is_replaced_and_adopts_its_vm(local, vm):
    boot = local.says(vm, "stat -c %Y /proc/1")
    worker = local.worker_pid(vm)
    os.kill(worker, signal.SIGKILL)
    torus.eventually(lambda: not pathlib.Path(f"/proc/{worker}").exists()
                     or " Z " in pathlib.Path(f"/proc/{worker}/stat").read_text())
    torus.eventually(lambda: local.worker_pid(vm) != worker, seconds=60)
    torus.eventually(lambda: local.node(vm)["state"] == "READY")
    assert local.says(vm, "stat -c %Y /proc/1") == boot


def kill_everything():
    """What a reboot does: every process of the VMs is gone, and with them mounts and networks."""
    pids = [int(l.split()[0]) for l in subprocess.run(
        ["ps", "-eo", "pid,args"], capture_output=True, text=True).stdout.splitlines()
        if str(DATA) in l and "serve" not in l]
    note_uids()
    tags = {tag(uid) for uid in seen_uids}
    for cgroup in [c for t in tags for c in pathlib.Path("/sys/fs/cgroup").glob(f"**/torus-{t}/cgroup.procs")]:
        pids += [int(p) for p in cgroup.read_text().split()]
    for pid in set(pids):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    time.sleep(0.5)
    mounts = [l.split()[1] for l in pathlib.Path("/proc/mounts").read_text().splitlines() if str(DATA) in l]
    for mount in sorted(mounts, reverse=True):
        subprocess.run(["umount", "-l", mount], check=True)
    for line in subprocess.run(["nft", "list", "tables"], capture_output=True, text=True).stdout.splitlines():
        if any(t in line for t in tags):
            subprocess.run(["nft", "delete", *line.split()], check=True)


def test_after_a_reboot_ready_nodes_come_back_with_their_disks(local, vm):
    local.ssh(vm, "echo kept > ~/kept; sync")
    local.vm("create", "halted", *CREATE)
    local.vm("stop", "halted")
    local.kill()
    kill_everything()
    offset = len(local.log.read_text())
    local.start()
    torus.eventually(lambda: f"nodes/{vm} is READY" in local.log.read_text()[offset:])
    assert local.says(vm, "cat ~/kept") == "kept"
    assert local.node("halted")["state"] == "STOPPED"
    local.vm("start", "halted")
    local.vm("delete", "halted", "--quiet")


def test_a_node_keeps_the_image_it_was_made_with(local, vm):
    """Another package index on the host is another recipe; VMs that are there do not mind."""
    boot = local.says(vm, "stat -c %Y /proc/1; cat /etc/pip.conf")
    local.stop()
    local.environment["PIP_INDEX_URL"] = "https://index.invalid/simple"
    try:
        local.start()
        time.sleep(1)
        assert local.node(vm)["state"] == "READY"
        assert local.says(vm, "stat -c %Y /proc/1; cat /etc/pip.conf") == boot
        local.vm("stop", vm)
        local.vm("start", vm)
        assert "index.invalid" not in local.says(vm, "cat /etc/pip.conf")
    finally:
        del local.environment["PIP_INDEX_URL"]
        local.stop()
        local.start()


def test_stop_keeps_the_disk_and_delete_leaves_nothing(local):
    before = leftovers()
    local.vm("create", "d1", *CREATE)
    assert len(leftovers()) > len(before)
    local.ssh("d1", "echo kept > ~/kept")
    local.vm("stop", "d1")
    local.vm("start", "d1")
    assert local.says("d1", "cat ~/kept") == "kept"
    local.vm("delete", "d1", "--quiet")
    torus.eventually(lambda: leftovers() == before, what="the end of the worker")
    local.vm("create", "d1", *CREATE)
    assert local.ssh("d1", "cat ~/kept", check=False).returncode != 0, "a new node, a new disk"
    local.vm("delete", "d1", "--quiet")


def test_a_cancelled_create_leaves_nothing(local):
    before = leftovers()
    operation = local.create("x1")
    local.ok("POST", "/v2/" + operation["name"] + ":cancel", {})
    ended = local.wait(operation)
    assert ended.get("error", {}).get("code") == 1 or "response" in ended
    if "response" in ended:
        local.vm("delete", "x1", "--quiet")
    torus.eventually(lambda: local.node("x1") is None)
    torus.eventually(lambda: leftovers() == before, what="the end of the worker")


def test_slices_of_several_hosts_are_refused_with_their_number(local):
    done = local.vm("create", "big", "--accelerator-type=v2-32", "--version=tpu-ubuntu2204-base", check=False)
    assert done.returncode == 1 and "slice of 4 hosts" in done.stderr


def test_an_engine_that_is_missing_is_named(local, new_service):
    service = new_service(backend="local", flags=["--engine=/missing/engine.so"])
    service.spawn()
    assert service.process.wait(timeout=30) == 1
    assert "/missing/engine.so" in service.log.read_text()
    service.process = None
