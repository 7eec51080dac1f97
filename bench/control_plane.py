#!/usr/bin/env python3
"""How many requests a second the control plane answers: alone, and beside what people use instead.

  bench/control_plane.py [--rounds=N] [--seconds=S] [--only=scale|peers]

1. Scale: 2,000 nodes on the fake backend; list, get, create and delete by REST and by gRPC, with the
   median and the 99th percentile of the times, and the service's memory.
2. Peers: moto's server (EC2) and fake-gcs-server, with its files on the same disk and in memory.
   Each round starts every server anew and gives it 100 things; then each kind of request is sent to
   one server after the other, in random order, so that what else the machine does hits all alike.
   Figures are ratios within a round: their median, and their range, which with N rounds holds the
   true median with a probability of 1 - 2^(1-N). Exits with 1 where a bar is missed.

Load: wrk for HTTP, bench_grpc_load for gRPC; 16 connections, each with one request under way. Client
and servers share the machine's cores. A wrong answer ends the run. scripts/bench.sh installs the
peers into build/bench. TORUS names the binary (default: build/release/torus). All on loopback.
"""
import argparse
import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import torus  # noqa: E402
from service import NODES, Client, free_port, memory, say_load, say_machine  # noqa: E402

PEERS = ROOT / "build/bench"
GRPC_LOAD = torus.BINARY.parent / "bench/bench_grpc_load"
CONNECTIONS = 16
MANY = 2000  # nodes, for scale
ENOUGH = 12_000  # nodes, for a second of deletes
ITEMS = 100  # things that each peer holds, and a page of a list
PHASES = ["get", "list", "create"]
BODY = json.dumps(torus.NODE)
# Torus over the peer, at least.
BARS = {("moto", "list"): 10, ("moto", "create"): 10,
        ("fake-gcs, files", "get"): 1, ("fake-gcs, files", "create"): 1}


@dataclasses.dataclass
class Load:
    """One kind of HTTP request; load.lua says what "#" in a path becomes."""
    method: str
    path: str
    first: int = 0
    count: int = 0
    body: str = ""
    headers: dict = dataclasses.field(default_factory=dict)
    stretch: int = 1  # times as long, where answers take long

    def run(self, port, seconds):
        headers = [part for header in self.headers.items() for part in header]
        return report(["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds * self.stretch}s", "--timeout=60s", "-s",
                       ROOT / "bench/load.lua",
                       f"http://127.0.0.1:{port}", "--", self.method, self.path, str(self.first),
                       str(self.count), self.body, *headers])


def report(command):
    """What a load generator measured; with `rate`, in requests a second."""
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    measured = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
    if done.returncode != 0 or measured.get("errors", 1) != 0 or measured["requests"] == 0:
        sys.exit(f"error: {command}\n{done.stdout}{done.stderr}")
    return measured | {"rate": measured["requests"] / measured["seconds"]}


def settle(pid):
    """Waits until a process has nothing left to do."""
    def busy():
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])  # user and system time, in ticks of 10 ms
    before = busy()
    while True:
        time.sleep(0.2)
        after = busy()
        if after - before <= 1:
            return
        before = after


class Torus:
    loads = {"get": Load("GET", f"{NODES}/n#", count=ITEMS),
             "list": Load("GET", f"{NODES}?pageSize={ITEMS}"),
             "create": Load("POST", f"{NODES}?nodeId=x#", body=BODY)}

    def start(self, folder, nodes=ITEMS):
        self.service = torus.Service(folder, backend="fake").start()
        self.port, self.pid = self.service.port, self.service.process.pid
        client = Client(self.service)
        operations = [client.create(f"n{i}") for i in range(nodes)]
        for operation in operations:
            client.wait(operation)

    def stop(self):
        self.service.stop()


class Program:
    """A peer: a program that listens on a port of ours."""

    def __init__(self):
        self.port = free_port()

    def run(self, command, log, environment=None):
        with open(log, "wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output,
                                            env=os.environ | (environment or {}))
        self.pid = self.process.pid

    def call(self, method, path, body="", headers=None):
        """Waits for the program to listen, too."""
        for _ in range(600):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                connection.request(method, path, body, headers or {})
                answer = connection.getresponse()
                text = answer.read().decode()
                assert answer.status == 200, (path, answer.status, text)
                return text
            except ConnectionRefusedError:
                assert self.process.poll() is None, "a peer ended"
                time.sleep(0.05)
        raise AssertionError("a peer does not listen")

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)


class FakeGcs(Program):
    """Objects are what nodes are to Torus; a create carries the body of a node's create."""

    def __init__(self, backend):
        super().__init__()
        self.backend = backend
        upload = "/upload/storage/v1/b/bench/o?uploadType=media&name="
        self.loads = {"get": Load("GET", "/storage/v1/b/bench/o/n#", count=ITEMS),
                      "list": Load("GET", f"/storage/v1/b/bench/o?maxResults={ITEMS}"),
                      "create": Load("POST", f"{upload}x#", body=BODY,
                                     headers={"Content-Type": "application/json"})}
        self.upload = upload

    def start(self, folder):
        self.run([PEERS / "fake-gcs-server", "-scheme", "http", "-host", "127.0.0.1", "-port",
                  str(self.port), "-backend", self.backend, "-filesystem-root", folder / "objects",
                  "-log-level", "error"], folder / "log")
        self.call("POST", "/storage/v1/b?project=bench", '{"name": "bench"}')
        for i in range(ITEMS):
            self.call("POST", f"{self.upload}n{i}", BODY, {"Content-Type": "application/json"})


class Moto(Program):
    """As shipped: werkzeug's server with a thread a connection. (It ships no faster one.) The list of
    public images is left out, in its favour: a start is quicker and less is searched."""
    headers = {"Content-Type": "application/x-www-form-urlencoded",
               "Authorization": "AWS4-HMAC-SHA256 Credential=bench/20260101/us-east-1/ec2/aws4_request, "
                                "SignedHeaders=host, Signature=none"}

    @classmethod
    def load(cls, action, **parameters):
        form = {"Action": action, "Version": "2016-11-15"} | parameters
        return Load("POST", "/", body=urllib.parse.urlencode(form), headers=cls.headers)

    def start(self, folder):
        self.run([PEERS / "venv/bin/moto_server", "-H", "127.0.0.1", "-p", str(self.port)],
                 folder / "log", {"MOTO_EC2_LOAD_DEFAULT_AMIS": "false"})
        make = {"ImageId": "ami-12c6146b", "InstanceType": "t2.micro"}
        many = self.load("RunInstances", MinCount=ITEMS, MaxCount=ITEMS, **make)
        made = self.call("POST", "/", many.body, self.headers)
        one = made.split("<instanceId>")[1].split("<")[0]
        self.loads = {"get": self.load("DescribeInstances", **{"InstanceId.1": one}),
                      "list": dataclasses.replace(self.load("DescribeInstances"), stretch=4),
                      "create": self.load("RunInstances", MinCount=1, MaxCount=1, **make)}


SERVERS = {"torus": Torus, "fake-gcs, files": lambda: FakeGcs("filesystem"),
           "fake-gcs, memory": lambda: FakeGcs("memory"), "moto": Moto}


def one_round(seconds):
    """{phase: {server: what was measured}}"""
    servers = {name: make() for name, make in SERVERS.items()}
    results = {}
    with tempfile.TemporaryDirectory(prefix="torus-bench-") as root, contextlib.ExitStack() as stack:
        for number, server in enumerate(servers.values()):
            folder = pathlib.Path(root, str(number))
            folder.mkdir()
            server.start(folder)
            stack.callback(server.stop)
        for phase in PHASES:
            results[phase] = {}
            # A fast machine gives all 32,765 addresses of a service away in two seconds.
            length = 1 if phase == "create" else seconds
            for name in random.sample(list(servers), len(servers)):
                for server in servers.values():
                    settle(server.pid)
                results[phase][name] = servers[name].loads[phase].run(servers[name].port, length)
    return results


def measure_peers(rounds, seconds):
    """True if every bar was met."""
    print(f"\nbeside peers: {CONNECTIONS} connections, {ITEMS} things each, {rounds} rounds of "
          f"{seconds} s; medians of the rounds")
    print(f"{'':<8} {'server':<18} {'requests/s':>10} {'p50 ms':>8} {'p99 ms':>8}   Torus over it")
    every = [one_round(seconds) for _ in range(rounds)]
    met = True
    for phase in PHASES:
        for name in SERVERS:
            measured = [result[phase][name] for result in every]
            rate, p50, p99 = (statistics.median(m[key] for m in measured)
                              for key in ("rate", "p50", "p99"))
            verdict = ""
            if name != "torus":
                ratios = sorted(result[phase]["torus"]["rate"] / result[phase][name]["rate"]
                                for result in every)
                ratio = statistics.median(ratios)
                verdict = f"{ratio:6.2f} x ({ratios[0]:.2f} to {ratios[-1]:.2f})"
                if bar := BARS.get((name, phase)):
                    met &= ratio >= bar
                    verdict += f"   bar {bar} x: " + ("met" if ratio >= bar else "MISSED")
            print(f"{phase:<8} {name:<18} {rate:>10,.0f} {p50:>8.2f} {p99:>8.2f}   {verdict}".rstrip(),
                  flush=True)
    return met


def say_rate(door, what, measured):
    print(f"{door:<6} {what:<28} {measured['rate']:>10,.0f} {measured['p50']:>8.2f} "
          f"{measured['p99']:>8.2f}", flush=True)


def say_memory(when, pid):
    rss, private = memory(pid)
    print(f"memory, {when}: RSS {rss:.0f} MB, of it {private:.0f} MB private", flush=True)


def whole_list(server):
    """Milliseconds to read all nodes, in pages as large as they come."""
    client, begin, token, seen = Client(server.service), time.perf_counter(), "", 0
    while True:
        client.connection.request("GET", f"{NODES}?pageToken={token}")
        page = client.connection.getresponse().read()
        seen += page.count(b'"runtimeVersion"')
        if b'"nextPageToken"' not in page:
            assert seen == MANY, seen
            return (time.perf_counter() - begin) * 1000
        token = json.loads(page)["nextPageToken"]


def rest_loads():
    return {"get": Load("GET", f"{NODES}/n#", count=MANY),
            "list, a page of 100": Load("GET", f"{NODES}?pageSize=100"),
            "list, a page of 1,000": Load("GET", f"{NODES}?pageSize=1000"),
            "create": Load("POST", f"{NODES}?nodeId=x#", MANY, body=BODY),
            "delete": Load("DELETE", f"{NODES}/x#", MANY)}


def make_enough(server, made):
    """More creates, so that deletes do not run out of nodes. Returns how many x… there are."""
    while made < ENOUGH:
        made += Load("POST", f"{NODES}?nodeId=x#", MANY + made, body=BODY).run(server.port, 1)["sent"]
        settle(server.pid)
    return made


def measure_door(door, seconds):
    """One way in, on a service of its own with 2,000 nodes."""
    server = Torus()
    with tempfile.TemporaryDirectory(prefix="torus-bench-") as folder:
        server.start(pathlib.Path(folder), MANY)
        try:
            settle(server.pid)
            say_memory(f"{MANY:,} nodes", server.pid)
            for what, load in rest_loads().items():
                lasts = 1 if what == "delete" else seconds
                if door == "REST":
                    measured = load.run(server.port, lasts)
                else:
                    verb, _, page = what.partition(", a page of ")
                    measured = report([GRPC_LOAD, str(server.port), verb, str(CONNECTIONS),
                                       str(lasts), page.replace(",", "") or str(MANY)])
                say_rate(door, what, measured)
                settle(server.pid)
                if door == "REST" and what.endswith("1,000"):
                    took = statistics.median(whole_list(server) for _ in range(20))
                    print(f"{door:<6} all {MANY:,}, one client, page by page: {took:.0f} ms")
                if what == "create":
                    made = make_enough(server, measured.get("sent", measured["requests"]))
                    say_memory(f"{MANY + made:,} nodes", server.pid)
        finally:
            server.stop()


def measure_scale(seconds):
    print(f"\nscale: {MANY:,} nodes on the fake backend, {CONNECTIONS} connections")
    print(f"{'door':<6} {'request':<28} {'requests/s':>10} {'p50 ms':>8} {'p99 ms':>8}")
    for door in ("REST", "gRPC"):
        measure_door(door, seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=2, help="that each load lasts")
    parser.add_argument("--only", choices=["scale", "peers"])
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # cleans up on its way out
    say_machine()
    met = True
    if options.only != "peers":
        measure_scale(options.seconds)
    if options.only != "scale":
        met = measure_peers(options.rounds, options.seconds)
    say_load()
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
