"""The TensorFlow worker of a TPU VM (src/worker/guest/tensorflow_worker.py), with a stand-in for TensorFlow.

tests/vm/test_tensorflow_vm.py has it with the real one, in a VM.
"""
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import grpc
import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "src/worker/guest/tensorflow_worker.py"

# TensorFlow as far as the worker knows it. Its server echoes, each connection after its pid, which is
# no gRPC: so gRPC's client, which makes the context that stays, has a stand-in, too.
TENSORFLOW = """
import os, socket, sys, threading
from unittest import mock
import grpc
sys.modules.update({"tensorflow.core": mock.Mock(), "tensorflow.core.protobuf": mock.Mock()})
sys.modules["tensorflow.core.protobuf"].tensorflow_server_pb2.ServerDef().SerializeToString.return_value = b"def"
def create(request, timeout):
    assert request == bytes([10, 3]) + b"def" + bytes([57]) + bytes(8 * [1]), request
grpc.insecure_channel = mock.Mock()
grpc.insecure_channel().unary_unary.return_value = create
class distribute:
    class Server:
        def __init__(self, cluster, job_name, task_index):
            assert (cluster, job_name, task_index) == ({"worker": ["127.0.0.1:0"]}, "worker", 0)
            self.socket = socket.create_server(("127.0.0.1", 0))
            self.target = "grpc://127.0.0.1:%d" % self.socket.getsockname()[1]
            print("a server says something", flush=True)
        def echo(self, connection):
            connection.sendall(b"%d\\n" % os.getpid())
            while data := connection.recv(1 << 16):
                connection.sendall(data)
        def join(self):
            while True:
                threading.Thread(target=self.echo, args=(self.socket.accept()[0],), daemon=True).start()
"""


class RunningWorker:
    def __init__(self, folder, tensorflow):
        (folder / "tensorflow.py").write_text(tensorflow)
        self.log = folder / "log"
        self.process = subprocess.Popen(
            [sys.executable, SCRIPT, "0"],
            env=dict(os.environ, PYTHONPATH=str(folder), TORUS_WORKER_LOG=str(self.log)))
        wait_for(lambda: self.log.exists() and "listening on" in self.log.read_text())
        self.port = int(self.log.read_text().split("listening on ")[1])

    def connect(self):
        """A connection, and the pid of the server that it reached."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        return connection, int(connection.makefile().readline())

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(20) == 0


def wait_for(condition):
    end = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def echo(connection, data):
    """What comes back for `data`."""
    sender = threading.Thread(target=connection.sendall, args=(data,))
    sender.start()
    back = b""
    while len(back) < len(data):
        back += connection.recv(1 << 16)
    sender.join()
    return back


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def worker(tmp_path):
    worker = RunningWorker(tmp_path, TENSORFLOW)
    yield worker
    worker.close()


def test_clients_share_a_server_that_ends_after_the_last(worker):
    first, pid = worker.connect()
    second, same = worker.connect()
    assert pid == same
    assert echo(second, data := os.urandom(1 << 20)) == data
    first.close()
    assert echo(second, b"there") == b"there"
    second.close()
    wait_for(lambda: not is_alive(pid))
    third, other = worker.connect()
    assert other != pid
    third.close()
    assert "a server says something" in worker.log.read_text()


def test_many_first_clients_start_one_server(worker):
    sockets = [socket.create_connection(("127.0.0.1", worker.port), timeout=30) for _ in range(50)]
    assert len({s.makefile().readline() for s in sockets}) == 1
    for s in sockets:
        s.close()


def test_a_server_that_crashes_ends_its_connections_and_comes_again(worker):
    connection, pid = worker.connect()
    os.kill(pid, signal.SIGKILL)
    assert connection.recv(1) == b""
    wait_for(lambda: not is_alive(pid))
    again, other = worker.connect()
    assert other != pid
    again.close()


def test_the_server_dies_with_the_worker(worker):
    _, pid = worker.connect()
    worker.close()
    wait_for(lambda: not is_alive(pid))


def test_the_server_dies_with_a_worker_that_is_killed(tmp_path):
    worker = RunningWorker(tmp_path, TENSORFLOW)
    _, pid = worker.connect()
    worker.process.kill()
    worker.process.wait()
    wait_for(lambda: not is_alive(pid))


@pytest.mark.parametrize("tensorflow, said", [
    ("raise ImportError('libfoo is damaged')", "libfoo is damaged"),
    ("import os; os.abort()", "It ended with -6"),
])
def test_clients_of_a_server_that_cannot_start_are_told_why(tmp_path, tensorflow, said):
    worker = RunningWorker(tmp_path, tensorflow)
    with grpc.insecure_channel(f"127.0.0.1:{worker.port}") as channel:
        call = channel.unary_unary("/tensorflow.eager.EagerService/CreateContext")
        with pytest.raises(grpc.RpcError) as error:
            call(b"", timeout=60)
    assert error.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert said in error.value.details() and "/var/log/tensorflow-worker.log" in error.value.details()
    worker.close()


def test_a_port_in_use_is_said(tmp_path):
    worker = RunningWorker(tmp_path, TENSORFLOW)
    log = tmp_path / "other.log"
    other = subprocess.run([sys.executable, SCRIPT, str(worker.port)], timeout=30,
                           env=dict(os.environ, TORUS_WORKER_LOG=str(log)))
    assert other.returncode == 1 and "cannot listen" in log.read_text()
    worker.close()
