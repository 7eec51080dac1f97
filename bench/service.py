#!/usr/bin/env python3
"""What the service costs: to start, to idle, to make a TPU VM and to delete it.

  bench/service.py [--starts=N] [--creates=N]

A line a figure, with its bar where it has one; exits with 1 if a bar is missed. What needs TPU VMs
needs root, and says so without it. Times are of the wall clock, seen from a client on this machine;
the page cache is warm and the VMs' base image exists (the first create, not counted, makes it).

VMs live in TORUS_TEST_DATA (default: /var/tmp/torus-bench; every parent must let others pass),
whose base image is kept; the VMs are removed. TORUS names the binary (default: build/release/torus).
Traffic goes to loopback and to the addresses of the VMs made here.
"""
import argparse
import datetime
import http.client
import json
import os
import pathlib
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import torus  # noqa: E402

START_BAR = 200  # ms
RSS_BAR = 60  # MB
CREATE_BAR = 1000  # ms
MANY = 2000  # nodes
IDLE = 3  # s without a request before memory is read
POLL = 0.005  # s between looks at an operation

DATA = pathlib.Path(os.environ.get("TORUS_TEST_DATA", "/var/tmp/torus-bench"))
LOCATIONS = "/v2/projects/torus-bench/locations"
NODES = f"{LOCATIONS}/{torus.ZONE}/nodes"

missed = []


def say(what, figure, bar=None, value=None, unit=""):
    verdict = ""
    if bar is not None:
        verdict = f"   bar {bar} {unit}: " + ("met" if value <= bar else "MISSED")
        if value > bar:
            missed.append(what)
    print(f"{what:<46} {figure}{verdict}", flush=True)


def spread(values):
    ordered = sorted(values)
    p90 = ordered[round(0.9 * (len(ordered) - 1))]
    return (f"p50 {statistics.median(ordered):.0f} ms, p90 {p90:.0f} ms, max {ordered[-1]:.0f} ms "
            f"(n {len(ordered)})")


def say_times(what, values, bar=None):
    say(what, spread(values), bar, statistics.median(values), "ms")


def say_machine():
    cpu = [l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")]
    memory = int(open("/proc/meminfo").readline().split()[1]) / 2**20
    version = subprocess.run([torus.BINARY, "--version"], capture_output=True, text=True, check=True)
    print(f"machine: {cpu[0]}, {len(cpu)} cores, {memory:.0f} GiB, Linux {platform.release()}, "
          f"{datetime.date.today()}, {version.stdout.strip()}")
    say_load()


def say_load():
    print("load average (1, 5, 15 minutes):", *(f"{load:.1f}" for load in os.getloadavg()), flush=True)


class Client:
    """REST on one kept connection."""

    def __init__(self, service):
        self.connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)

    def call(self, method, path, body=None):
        self.connection.request(method, path, json.dumps(body) if body is not None else None)
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())

    def ok(self, method, path, body=None):
        status, answer = self.call(method, path, body)
        assert status == 200, (method, path, answer)
        return answer

    def create(self, node_id, accelerator_type="v2-8"):
        body = {"acceleratorType": accelerator_type, "runtimeVersion": "tpu-ubuntu2204-base"}
        return self.ok("POST", f"{NODES}?nodeId={node_id}", body)

    def wait(self, operation):
        """The operation, done without an error."""
        while not operation["done"]:
            time.sleep(POLL)
            operation = self.ok("GET", "/v2/" + operation["name"])
        assert "error" not in operation, operation
        return operation

    def delete(self, node_id):
        self.wait(self.ok("DELETE", f"{NODES}/{node_id}"))
        status, _ = self.call("GET", f"{NODES}/{node_id}")
        assert status == 404

    def delete_all(self):
        for node in self.ok("GET", NODES).get("nodes", []):
            self.delete(node["name"].split("/")[-1])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def timed_start(service):
    """Milliseconds from exec to the first answer."""
    service.port = free_port()
    begin = time.perf_counter()
    service.spawn()
    while True:
        try:
            Client(service).ok("GET", LOCATIONS)
            return (time.perf_counter() - begin) * 1000
        except ConnectionRefusedError:
            assert service.process.poll() is None, service.log.read_text()
            time.sleep(0.0005)


def measure_starts(what, service, count):
    times = []
    for _ in range(count):
        times.append(timed_start(service))
        service.stop()
    say_times(f"start, {what}", times, START_BAR)


def memory(pid):
    """RSS and its private (anonymous) part, in MB."""
    status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
    return [int(status[name].split()[0]) * 1024 / 1e6 for name in ("VmRSS", "RssAnon")]


def say_memory(what, pid, bar=None):
    rss, private = memory(pid)
    say(f"memory, {what}", f"RSS {rss:.1f} MB, of it {private:.1f} MB private", bar, rss, "MB")


def measure_fake(starts):
    with tempfile.TemporaryDirectory(prefix="torus-bench-") as folder:
        service = torus.Service(folder, backend="fake")
        try:
            measure_starts("fake, no nodes", service, starts)
            service.start()
            Client(service).ok("GET", LOCATIONS)
            time.sleep(IDLE)
            say_memory("idle, fake, no nodes", service.process.pid, RSS_BAR)
            client = Client(service)
            operations = [client.create(f"n{i}") for i in range(MANY)]
            for operation in operations:
                client.wait(operation)
            time.sleep(IDLE)
            say_memory(f"idle, fake, {MANY} nodes just made", service.process.pid, RSS_BAR)
            service.stop()
            measure_starts(f"fake, {MANY} nodes", service, starts)
            service.start()
            Client(service).ok("GET", LOCATIONS)
            time.sleep(IDLE)
            say_memory(f"idle, fake, {MANY} nodes, started anew", service.process.pid, RSS_BAR)
        finally:
            service.stop()


def leave_low_addresses(service):
    """Two services on one machine give the same addresses. So that VMs of another are not cut off,
    a new data folder's begin further on: after those that the fake backend gave a large slice."""
    if (service.folder / "data/torus.db").exists():
        return
    fake = torus.Service(service.folder, backend="fake").start()
    try:
        client = Client(fake)
        client.wait(client.create("large", "v5p-12288"))
        client.delete("large")
    finally:
        fake.stop()


def stamp(line):
    return datetime.datetime.fromisoformat(line.split()[0]).timestamp()


# What a create waits for, in this order. Steps 2 to 4 end at lines of the worker's log, step 5 at
# the operation's endTime; times are of one clock, to the millisecond.
STEPS = ["request answered", "worker started", "order received", "sandbox made and started",
         "sshd up, and reported READY", "seen by the client, sshd's greeting read"]


def timed_create(client, node_id):
    """Milliseconds until the operation is done and sshd's greeting is read, and those of each step."""
    at = [time.time()]
    begin = time.perf_counter()
    operation = client.create(node_id)
    at.append(time.time())
    operation = client.wait(operation)
    address = operation["response"]["networkEndpoints"][0]["ipAddress"]
    with socket.create_connection((address, 22), timeout=5) as ssh:
        assert ssh.recv(64).startswith(b"SSH-2.0-")
    total = (time.perf_counter() - begin) * 1000
    end = time.time()
    (log,) = (DATA / "data/vms").glob("*/0/log/worker.log")
    lines = log.read_text().splitlines()
    (born,) = (stamp(l) for l in lines if " is process " in l)
    (started,) = (l for l in lines if " started the VM at " in l)
    at += [born, stamp(started) - int(started.split()[-2]) / 1000, stamp(started)]
    ready = operation["metadata"]["endTime"].rstrip("Z")[:26]
    at += [datetime.datetime.fromisoformat(ready + "+00:00").timestamp(), end]
    return total, [(after - before) * 1000 for before, after in zip(at, at[1:])]


def say_vm_memory():
    (run,) = (DATA / "data/vms").glob("*/0/run")
    say_memory("a VM's `torus worker`", int((run / "lock").read_text()))
    first = json.loads((run / "sandbox.json").read_text())["pid"]
    names, rss, share = [], 0, 0
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            same = os.readlink(process / "ns/pid") == os.readlink(f"/proc/{first}/ns/pid")
            if not same:
                continue
            names.append((process / "comm").read_text().strip())
            rss += memory(process.name)[0]
            share += int((process / "smaps_rollup").read_text().split("Pss:")[1].split()[0]) * 1024 / 1e6
        except OSError:
            continue  # gone meanwhile
    say("memory, an idle VM's own processes",
        f"RSS {rss:.1f} MB, proportional {share:.1f} MB ({', '.join(sorted(names))})")


def measure_local(starts, creates):
    service = torus.Service(DATA, backend="local")
    try:
        leave_low_addresses(service)
        timed_start(service)
        Client(service).delete_all()  # of a run that was killed
        service.stop()
        measure_starts("local, no nodes", service, starts)

        service.start()
        client = Client(service)
        begin = time.perf_counter()
        timed_create(client, "first")
        took = time.perf_counter() - begin
        say("create, first of this run", f"{took:.1f} s (with the base image, if it was missing)")
        time.sleep(IDLE)
        say_memory("idle, local, 1 VM", service.process.pid, RSS_BAR)
        say_vm_memory()
        client.delete("first")

        made, steps, deleted = [], [], []
        for i in range(creates):
            total, step = timed_create(client, f"b{i}")
            made.append(total)
            steps.append(step)
            begin = time.perf_counter()
            client.delete(f"b{i}")
            deleted.append((time.perf_counter() - begin) * 1000)
            assert not list((DATA / "data/vms").glob("*")), "a deleted VM's folder is gone"
        say_times("create v2-8 -> READY, sshd answers", made, CREATE_BAR)
        medians = [statistics.median(step) for step in zip(*steps)]
        for name, median in zip(STEPS, medians):
            print(f"  {name:<44} {median:4.0f} ms  {median / sum(medians):4.0%}")
        say_times("delete v2-8 -> node and its files gone", deleted)
    finally:
        try:
            if service.process:
                Client(service).delete_all()
        finally:
            service.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--creates", type=int, default=25)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # cleans up on its way out
    say_machine()
    measure_fake(options.starts)
    if os.geteuid() == 0:
        measure_local(options.starts, options.creates)
    else:
        print("SKIPPED: the local backend and TPU VMs (start, memory, create, delete) need root")
    say_load()
    if missed:
        print("bars missed:", "; ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
