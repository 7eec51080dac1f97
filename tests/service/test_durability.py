"""What was acknowledged is there, however often the service is killed while many clients write.

64 clients create, update and delete nodes of their own, half by REST and half by gRPC, while the
service is killed and started again. Each keeps a ledger: what was answered holds; a request without
an answer may have happened or not. TORUS_SOAK=1 makes it a minute and 20 kills. A killed process
loses no page of the kernel's, so this says nothing of a power failure.
"""
import http.client
import json
import os
import random
import threading
import time

import grpc
from google.cloud import tpu_v2
from google.protobuf import field_mask_pb2

import torus

SOAK = os.environ.get("TORUS_SOAK") == "1"
SECONDS, KILLS = (60, 20) if SOAK else (8, 4)
CLIENTS = 64
MOST_NODES = 20  # that a client keeps
NODES = f"/v2/{torus.PARENT}/nodes"


class Unanswered(Exception):
    pass


class Rest:
    """Each call returns the operation's name, or the error's code ("NOT_FOUND")."""

    def __init__(self, service):
        self.service = service
        self.connection = None

    def call(self, method, path, body=None):
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=30)
            self.connection.request(method, path, json.dumps(body) if body else None)
            answer = json.loads(self.connection.getresponse().read())
        except (OSError, http.client.HTTPException) as error:
            self.connection = None
            raise Unanswered from error
        return answer["error"]["status"] if "error" in answer else answer["name"]

    def create(self, node_id):
        return self.call("POST", f"{NODES}?nodeId={node_id}", torus.NODE)

    def update(self, node_id, labels):
        return self.call("PATCH", f"{NODES}/{node_id}?updateMask=labels", {"labels": labels})

    def delete(self, node_id):
        return self.call("DELETE", f"{NODES}/{node_id}")


class Grpc:
    """As Rest. The transport's bare calls: nothing is tried again."""

    def __init__(self, service):
        # A channel of its own, that looks for a restarted service often.
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 200),
                   ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.enable_retries", 0)]
        channel = grpc.insecure_channel(f"127.0.0.1:{service.port}", options)
        self.calls = tpu_v2.services.tpu.transports.TpuGrpcTransport(channel=channel)

    def call(self, method, request):
        try:
            return method(request, timeout=30).name
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNAVAILABLE:
                raise Unanswered from error
            return error.code().name

    def create(self, node_id):
        node = tpu_v2.Node(accelerator_type="v2-8", runtime_version="tpu-ubuntu2204-base")
        return self.call(self.calls.create_node,
                         tpu_v2.CreateNodeRequest(parent=torus.PARENT, node_id=node_id, node=node))

    def update(self, node_id, labels):
        node = tpu_v2.Node(name=f"{torus.PARENT}/nodes/{node_id}", labels=labels)
        return self.call(self.calls.update_node, tpu_v2.UpdateNodeRequest(
            node=node, update_mask=field_mask_pb2.FieldMask(paths=["labels"])))

    def delete(self, node_id):
        return self.call(self.calls.delete_node,
                         tpu_v2.DeleteNodeRequest(name=f"{torus.PARENT}/nodes/{node_id}"))


class Entry:
    """What a client knows of one node."""
    there = True  # it was acknowledged, and no delete was sent
    gone = False  # its delete was acknowledged

    def __init__(self):
        self.versions = {None}  # the values that its label may have
        self.operations = []  # acknowledged


class Client(threading.Thread):
    """Changes nodes of its own, one request at a time, and writes down what it was told."""

    def __init__(self, number, service, stopping):
        super().__init__()
        self.door = (Rest, Grpc)[number % 2](service)
        self.prefix = f"c{number}-"
        self.stopping = stopping
        self.random = random.Random(number)
        self.ledger = {}
        self.live = []  # names of nodes that are there
        self.sent = self.unanswered = 0
        self.surprises = []

    def run(self):
        while not self.stopping.is_set():
            self.sent += 1
            try:
                self.step()
            except Unanswered:
                self.unanswered += 1
                time.sleep(0.02)

    def step(self):
        if not self.live or self.random.random() < 0.4 and len(self.live) < MOST_NODES:
            return self.create(f"{self.prefix}{self.sent}")
        name = self.random.choice(self.live)
        return self.update(name) if self.random.random() < 0.5 else self.delete(name)

    def create(self, name):
        entry = self.ledger[name] = Entry()
        entry.there = False
        answer = self.door.create(name)
        if self.take(entry, "create", answer):
            entry.there = True
            self.live.append(name)

    def update(self, name):
        entry, version = self.ledger[name], f"v{self.sent}"
        before, entry.versions = entry.versions, entry.versions | {version}
        answer = self.door.update(name, {"version": version})
        # A node that is being created takes no update.
        if answer == "INVALID_ARGUMENT":
            entry.versions = before
        elif self.take(entry, "update", answer):
            entry.versions = {version}

    def delete(self, name):
        self.live.remove(name)
        entry = self.ledger[name]
        entry.there = False
        entry.gone = self.take(entry, "delete", self.door.delete(name))

    def take(self, entry, verb, answer):
        acknowledged = answer.startswith("projects/")
        entry.operations.append(answer) if acknowledged else self.surprises.append((verb, answer))
        return acknowledged


def pages(service, collection):
    """Every item of a list."""
    token, items = "", []
    while True:
        page = service.ok("GET", f"/v2/{torus.PARENT}/{collection}?pageToken={token}")
        items += page.get(collection, [])
        token = page.get("nextPageToken")
        if not token:
            return items


def last_part(name):
    return name.rsplit("/", 1)[1]


def kill_again_and_again(service):
    pause = random.Random(1)
    for _ in range(KILLS):
        time.sleep(SECONDS / KILLS * pause.uniform(0.5, 1.5))
        service.kill()
        service.start()


def test_what_was_acknowledged_outlives_every_kill(service):
    stopping = threading.Event()
    clients = [Client(number, service, stopping) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        kill_again_and_again(service)
        time.sleep(SECONDS / KILLS)
    finally:
        stopping.set()
        for client in clients:
            client.join()
    assert [surprise for client in clients for surprise in client.surprises] == []
    assert all(client.ledger for client in clients)

    def all_done():
        operations = pages(service, "operations")
        return all(operation["done"] for operation in operations) and operations
    done = {operation["name"]: operation
            for operation in torus.eventually(all_done, 120, "the end of every operation")}
    nodes = {last_part(node["name"]): node for node in pages(service, "nodes")}
    assert {node["state"] for node in nodes.values()} == {"READY"}
    ledger = {name: entry for client in clients for name, entry in client.ledger.items()}
    assert nodes.keys() <= ledger.keys()
    for name, entry in ledger.items():
        if entry.there:
            assert name in nodes, f"{name} was acknowledged and is lost"
        if entry.gone:
            assert name not in nodes, f"the delete of {name} was acknowledged and is lost"
        if name in nodes:
            assert nodes[name].get("labels", {}).get("version") in entry.versions
        for operation in entry.operations:
            assert operation in done, f"{operation} was acknowledged and is lost"
            if entry.there or done[operation]["metadata"]["verb"] == "delete":
                assert "error" not in done[operation]
    sent, unanswered = (sum(getattr(client, what) for client in clients)
                        for what in ("sent", "unanswered"))
    print(f"{sent} requests, {unanswered} without an answer, {len(nodes)} nodes left")
    assert unanswered < sent / 2
