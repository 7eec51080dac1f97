"""A service with real TPU VMs on this machine, for tests and benchmarks. Needs root.

TORUS_TEST_DATA names the data folder (default: /var/tmp/torus-tests; every parent must let others
pass, since a VM's root is nobody on the host). Its base image is kept between runs.
"""
import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import threading
import time

import torus

DATA = pathlib.Path(os.environ.get("TORUS_TEST_DATA", "/var/tmp/torus-tests"))
CREATE = ["--accelerator-type=v2-8", "--version=tpu-ubuntu2204-base"]


def tag(uid, index=0):
    """What names a VM's link, table and cgroup (src/worker/vm_paths.h): 48 bits of an FNV-1a hash."""
    value = 0xcbf29ce484222325
    for byte in f"{uid}/{index}".encode():
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return f"{value >> 16:012x}"


seen_uids = set()  # of every VM that these tests made; another service's VMs are not our business


def note_uids():
    seen_uids.update(p.name for p in DATA.parent.glob(f"{DATA.name}*/data/vms/*"))


def leftovers():
    """All that our VMs leave on a host while they live: after the last delete it must be empty."""
    def lines(*command):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    note_uids()
    tags = {tag(uid) for uid in seen_uids}
    named = lines("ip", "-o", "link") + lines("ip", "-o", "route") + lines("nft", "list", "tables")
    named += [str(p) for p in pathlib.Path("/sys/fs/cgroup").glob("**/torus-*")]
    found = [line for line in named if any(t in line for t in tags)]
    found += [l for l in lines("ps", "-eo", "stat,pid,args") if str(DATA) in l and "serve" not in l
              and not l.startswith("Z")]
    found += [l for l in pathlib.Path("/proc/mounts").read_text().splitlines() if str(DATA) in l]
    found += [str(p) for p in (DATA / "data/vms").glob("*")]
    return found


def ssh_greets(address, seconds=5.0):
    """Whether sshd answers at the address within the time."""
    try:
        with socket.create_connection((address, 22), timeout=seconds) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


class Witness:
    """Watches, while a `with` block attacks, that the service and another VM still answer."""

    def __init__(self, service, neighbour):
        self.service, self.address = service, service.address(neighbour)
        self.slowest = 0.0

    def look(self):
        begin = time.monotonic()
        assert self.service.call("GET", f"/v2/{torus.PARENT}/nodes")[0] == 200, "the service is silent"
        assert ssh_greets(self.address), "the neighbour is silent"
        self.slowest = max(self.slowest, time.monotonic() - begin)

    def __enter__(self):
        self.failure, self.over, self.slowest = None, threading.Event(), 0.0
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def _watch(self):
        try:
            while not self.over.wait(0.2):
                self.look()
        except Exception as failure:  # told by the thread that asked
            self.failure = failure

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        assert self.failure is None, self.failure
        self.look()
        assert self.slowest < 5, f"an answer took {self.slowest:.1f} s"


class LocalService(torus.Service):
    """A service whose TPU VMs are on this machine, and the user who logs in to them."""

    def __init__(self, home, folder=DATA):
        super().__init__(folder, backend="local", environment={"HOME": str(home), "USER": "dev",
                                                               "XDG_CONFIG_HOME": str(home / "config")})
        self.home = home

    def start(self):
        super().start()
        images = self.folder / "data/images"
        if self.folder != DATA and not images.is_symlink():  # the base image is the one that is there
            if images.exists():
                shutil.rmtree(images)
            images.symlink_to(DATA / "data/images")
        return self

    def address(self, node):
        return self.node(node)["networkEndpoints"][0]["ipAddress"]

    def root(self, node, command, **options):
        """Runs a shell command in the node's VM as its root."""
        return self.ssh(node, f"sudo sh -c {shlex.quote(command)}", **options)

    def python(self, node, program, *arguments):
        """What a Python program prints that is run in the node's VM as its root."""
        return self.root(node, shlex.join(["python3", "-c", program, *map(str, arguments)])).stdout.strip()

    def vm(self, verb, node, *flags, check=True, timeout=900):
        done = self.torus("tpu-vm", verb, node, *flags, check=check, timeout=timeout)
        note_uids()
        return done

    def ssh(self, node, command, check=True, timeout=900):
        """Runs a command in the node's VM as the user dev."""
        return self.torus("tpu-vm", "ssh", f"dev@{node}", "--quiet", f"--command={command}",
                          check=check, timeout=timeout)

    def says(self, node, command):
        return self.ssh(node, command).stdout.strip()

    def worker_pid(self, node):
        uid = self.uid(node)
        return int((self.folder / "data/vms" / uid / "0/run/lock").read_text())

    def uid(self, node):
        """The node's uid, which names its folder."""
        host = self.says(node, "grep NODE_UID /run/torus/slice")
        return host.split("'")[1]

    def delete_all(self):
        for node in self.ok("GET", f"/v2/projects/{torus.PROJECT}/locations/-/nodes").get("nodes", []):
            status, operation = self.call("DELETE", "/v2/" + node["name"])
            if status == 200:
                self.wait(operation, 120)
