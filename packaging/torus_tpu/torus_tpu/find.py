"""Where a TensorFlow program's TPU is: what to give TPUClusterResolver, or why there is nothing to give.

Standard library only: nothing here loads a framework, and nothing waits longer than a few seconds,
where TensorFlow waits for ever at a port that nobody answers.
"""
import collections
import json
import os
import pathlib
import socket
import urllib.error
import urllib.parse
import urllib.request

from torus_tpu import NoTpu

PORT = 8470  # of a TPU VM's TensorFlow worker
SECONDS = 5  # for a connection, and for an answer

# tpu: for TPUClusterResolver. where: for people. software: True, False, or None if it cannot be told.
Tpu = collections.namedtuple("Tpu", "tpu where software")


def find(asked, has_kernels, environ=os.environ):
    """asked: what the program named, if anything. has_kernels: this TensorFlow can run a TPU in its process."""
    name = asked or environ.get("TPU_NAME") or environ.get("COLAB_TPU_ADDR")
    here = "TORUS_ENGINE" in environ
    if name == "local":
        if not has_kernels:
            raise NoTpu('the TPU is to be "local", in this process, and this TensorFlow has no kernels for TPUs: '
                        "install tensorflow-tpu, or name a worker (TPU_NAME=grpc://ADDRESS:8470)")
        return Tpu("local", "this process's own TPU", here or None)
    if name and ("://" in name or "." in name or ":" in name):
        return _worker(name, None)
    if name:
        return _node(name, environ)
    if has_kernels and (environ.get("TPU_LIBRARY_PATH") or _has_chips()):
        return Tpu("local", "this process's own TPU", here or None)
    if _answers("127.0.0.1", PORT) is None:
        return _worker(f"127.0.0.1:{PORT}", here or None)
    if environ.get("TPU_LIBRARY_PATH") or _has_chips():
        raise NoTpu("a TPU is here, and this TensorFlow has no kernels for it, nor is there a worker at port "
                    f"{PORT}: install tensorflow-tpu, or create the TPU VM with TensorFlow's version (--version=2.20.0)")
    raise NoTpu("no TPU is known here: give a TPU VM's name or address (TPU_NAME=grpc://ADDRESS:8470), run in a "
                "TPU VM, or with the software TPU (torus run -- python ...)")


def _has_chips():
    """Whether the files of a TPU VM's chips are here."""
    return any(pathlib.Path("/dev").glob("accel[0-9]*")) or any(
        vendor.read_text().strip() == "0x1ae0" for vendor in pathlib.Path("/sys/bus/pci/devices").glob("*/vendor"))


def _answers(host, port):
    """None, or why no connection comes about."""
    try:
        socket.create_connection((host, port), timeout=SECONDS).close()
        return None
    except OSError as error:
        return error.strerror or str(error)


def _worker(address, software):
    """A worker by its address, "grpc://10.0.0.2:8470" or parts of that."""
    parts = urllib.parse.urlsplit(address if "://" in address else "grpc://" + address)
    try:
        host, port = parts.hostname, parts.port or PORT
    except ValueError:
        host = None
    if parts.scheme != "grpc" or not host:
        raise NoTpu(f'"{address}" is no address of a TPU: it is written grpc://ADDRESS:8470')
    why = _answers(host, port)
    if why:
        raise NoTpu(f"nobody answers at {host}:{port} ({why}): is that the address of a node that is READY, with a "
                    "runtime version of TensorFlow (gcloud compute tpus tpu-vm describe NODE)?")
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Tpu(f"grpc://{target}", f"the worker at {target}", software)


def _node(name, environ):
    """A node by its name: Torus tells its address where `torus env` names one; else TensorFlow asks Google."""
    endpoint = environ.get("TORUS_ENDPOINT") or environ.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU")
    if environ.get("TPU_API_DISCOVERY_URL") or not endpoint:
        return Tpu(name, f"node {name}", None)
    project = environ.get("CLOUDSDK_CORE_PROJECT") or environ.get("GOOGLE_CLOUD_PROJECT")
    zone = environ.get("TORUS_ZONE") or environ.get("CLOUDSDK_COMPUTE_ZONE")
    if not project or not zone:
        missing = "zone (CLOUDSDK_COMPUTE_ZONE)" if project else "project (CLOUDSDK_CORE_PROJECT)"
        raise NoTpu(f'the TPU "{name}" is of some zone and project: set its {missing}')
    node = _describe(endpoint, f"projects/{project}/locations/{zone}/nodes/{name}", name)
    if node.get("state") != "READY":
        raise NoTpu(f'the TPU "{name}" is {node.get("state", "in no known state")}, not READY: wait for it, or '
                    f"gcloud compute tpus tpu-vm start {name} --zone={zone}")
    address = next((each.get("ipAddress") for each in node.get("networkEndpoints", [])), None)
    if not address:
        raise NoTpu(f'the TPU "{name}" has no address yet: wait for it')
    return _worker(f"{address}:{PORT}", True)._replace(where=f"node {name}, its worker at {address}:{PORT}")


def _describe(endpoint, path, name):
    url = urllib.parse.urljoin(endpoint, "/v2/" + urllib.parse.quote(path))
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            raise NoTpu(f'there is no TPU "{name}" ({path}): gcloud compute tpus tpu-vm list --zone=- shows those '
                        "there are") from None
        raise NoTpu(f"Torus at {endpoint} says {error.code} {error.reason} of {path}") from None
    except (OSError, ValueError) as error:
        raise NoTpu(f"Torus does not answer at {endpoint} ({getattr(error, 'reason', error)}): is torus serve "
                    "running, and the environment of its `torus env`?") from None
