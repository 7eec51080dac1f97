"""A TensorFlow client of a VM without TensorFlow: it is told so at once, where it would wait for ever."""
import socket
import subprocess

import pytest

import torus
from tpu_vm import ssh_greets

PYTHON = torus.ROOT / "build/tensorflow/2.20.0/bin/python"
PORT = 8470

CLIENT = """
import sys
import tensorflow as tf
tf.config.experimental_connect_to_cluster(tf.distribute.cluster_resolver.TPUClusterResolver(sys.argv[1]))
"""
# A program of the user's that has the port.
LISTENER = """
import socket
listener = socket.create_server(("0.0.0.0", 8470))
while True:
    listener.accept()[0].sendall(b"mine")
"""
FIRST_BYTES = "import socket; print(socket.create_connection(('127.0.0.1', 8470)).recv(4))"


@pytest.fixture(scope="module")
def address(local, vm):
    return local.address(vm)


def first_bytes(address):
    """Empty: nobody answers."""
    try:
        with socket.create_connection((address, PORT), timeout=2) as connection:
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")  # as a gRPC client begins
            return connection.recv(4)
    except (TimeoutError, ConnectionError):
        return b""


def client(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode != 0
    return done.stdout + done.stderr


@pytest.mark.skipif(not PYTHON.exists(), reason="scripts/tensorflow.sh installs TensorFlow")
def test_a_client_is_told_what_to_do(vm, address):
    said = client([PYTHON, "-c", CLIENT, f"grpc://{address}:{PORT}"])
    assert f'The TPU VM "{vm}" has no TensorFlow worker: its runtime version is tpu-ubuntu2204-base' in said
    assert "gcloud compute tpus tpu-vm create" in said and "--version=2.20.0" in said


def test_a_program_that_listens_there_has_the_port(local, vm, address):
    local.python(vm, "import sys; open('/tmp/listener.py', 'w').write(sys.argv[1])", LISTENER)
    for _ in range(2):
        pid = local.says(vm, "nohup python3 /tmp/listener.py >/tmp/listener.log 2>&1 & echo $!")
        torus.eventually(lambda: first_bytes(address) == b"mine", seconds=20, what="the program's answer")
        assert local.python(vm, FIRST_BYTES) == "b'mine'"
        local.says(vm, f"kill {pid}")
        torus.eventually(lambda: first_bytes(address) not in (b"mine", b""), seconds=15, what="the refusal")
    assert ssh_greets(address)
