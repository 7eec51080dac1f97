"""`torus` and the service: the commands of the README, as a user types them."""
import json

import torus

CREATE = ["--accelerator-type=v2-8", "--version=tpu-ubuntu2204-base"]


def test_a_nodes_life(service):
    service.torus("tpu-vm", "create", "n1", *CREATE)
    table = service.torus("tpu-vm", "list").stdout.splitlines()
    assert table[0].split() == ["NAME", "ZONE", "ACCELERATOR_TYPE", "TYPE", "TOPOLOGY", "NETWORK",
                                "RANGE", "STATUS"]
    assert table[1].split()[:3] == ["n1", torus.ZONE, "v2-8"] and table[1].split()[-1] == "READY"
    node = json.loads(service.torus("tpu-vm", "describe", "n1", "--format=json").stdout)
    assert node["state"] == "READY"
    assert "state: READY" in service.torus("tpu-vm", "describe", "n1").stdout
    service.torus("tpu-vm", "stop", "n1")
    service.torus("tpu-vm", "start", "n1")
    service.torus("tpu-vm", "delete", "n1", "--quiet")
    assert "n1" not in service.torus("tpu-vm", "list").stdout


def test_operations(service):
    service.torus("tpu-vm", "create", "n1", *CREATE, "--async")
    listed = json.loads(service.torus("operations", "list", "--format=json").stdout)
    assert len(listed) == 1
    name = listed[0]["name"].split("/")[-1]
    assert "create" in service.torus("operations", "describe", name).stdout


def test_errors_say_code_and_reason(service):
    done = service.torus("tpu-vm", "describe", "nobody", check=False)
    assert done.returncode == 1 and "NOT_FOUND" in done.stderr and "nobody" in done.stderr
    done = service.torus("tpu-vm", "create", "n1", "--accelerator-type=v9-8", "--version=x", check=False)
    assert done.returncode == 1 and "INVALID_ARGUMENT" in done.stderr


def test_ssh_to_a_node_without_a_vm_says_so(service):
    service.torus("tpu-vm", "create", "n1", *CREATE)
    done = service.torus("tpu-vm", "ssh", "n1", "--command=true", check=False)
    assert done.returncode != 0 and done.stderr.strip()
    assert "fake" in done.stderr or "no VM" in done.stderr, done.stderr
