"""TPU VMs on this machine, which needs root. The data folder's base image is kept between runs.

TORUS_TEST_DATA names the folder (default: /var/tmp/torus-tests; every parent must let others pass,
since a VM's root is nobody on the host).
"""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

import torus

DATA = pathlib.Path(os.environ.get("TORUS_TEST_DATA", "/var/tmp/torus-tests"))
CREATE = ["--accelerator-type=v2-8", "--version=tpu-ubuntu2204-base"]


def pytest_collection_modifyitems(items):
    if os.geteuid() == 0:
        return
    for item in items:
        if "/vm/" in str(item.path):
            item.add_marker(pytest.mark.skip(reason="TPU VMs need root"))


def leftovers():
    """All that VMs leave on a host while they live: after the last delete it must be empty."""
    def lines(*command):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [l for l in lines("ps", "-eo", "stat,pid,args") if str(DATA) in l and "serve" not in l
             and not l.startswith("Z")]
    found += [l for l in pathlib.Path("/proc/mounts").read_text().splitlines() if str(DATA) in l]
    found += [l for l in lines("ip", "-o", "link") if ": tv" in l]
    found += [l for l in lines("ip", "-o", "route") if "dev tv" in l]
    found += [l for l in lines("nft", "list", "tables") if "torus_" in l]
    found += [str(p) for p in pathlib.Path("/sys/fs/cgroup").glob("**/torus-*")]
    found += [str(p) for p in (DATA / "data/vms").glob("*")]
    return found


class LocalService(torus.Service):
    """A service whose TPU VMs are on this machine, and the user who logs in to them."""

    def __init__(self, home):
        super().__init__(DATA, backend="local", environment={"HOME": str(home), "USER": "dev",
                                                             "XDG_CONFIG_HOME": str(home / "config")})
        self.home = home

    def vm(self, verb, node, *flags, check=True, timeout=900):
        return self.torus("tpu-vm", verb, node, *flags, check=check, timeout=timeout)

    def ssh(self, node, command, check=True, timeout=900):
        """Runs a command in the node's VM as the user dev."""
        return self.torus("tpu-vm", "ssh", f"dev@{node}", "--quiet", f"--command={command}",
                          check=check, timeout=timeout)

    def says(self, node, command):
        return self.ssh(node, command).stdout.strip()

    def worker_pid(self, node):
        uid = self.uid(node)
        return int((DATA / "data/vms" / uid / "0/run/worker.pid").read_text().split()[0])

    def uid(self, node):
        """The node's uid, which names its folder."""
        host = self.says(node, "grep NODE_UID /run/torus/slice")
        return host.split("'")[1]

    def delete_all(self):
        for node in self.ok("GET", f"/v2/projects/{torus.PROJECT}/locations/-/nodes").get("nodes", []):
            status, operation = self.call("DELETE", "/v2/" + node["name"])
            if status == 200:
                self.wait(operation, 120)


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
