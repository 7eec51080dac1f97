"""The real gcloud, unmodified, pointed here by `torus env`; on the fake backend."""
import json
import shlex
import shutil
import subprocess

import pytest

import torus

pytestmark = pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed")


@pytest.fixture
def gcloud(service, tmp_path):
    """gcloud(...) in a shell that has evaluated `torus env`."""
    environment = service.environment | {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}

    def run(*arguments, check=True):
        command = shlex.join(["gcloud", *arguments])
        done = subprocess.run(
            ["bash", "-c", f'eval "$({torus.BINARY} env --endpoint {service.url})" && {command}'],
            env=environment, capture_output=True, text=True, timeout=120)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done
    return run


ZONE = f"--zone={torus.ZONE}"


def test_a_nodes_life(gcloud):
    gcloud("compute", "tpus", "tpu-vm", "create", "n1", ZONE, "--accelerator-type=v2-8",
           "--version=tpu-ubuntu2204-base", "--metadata=a=b")
    assert "READY" in gcloud("compute", "tpus", "tpu-vm", "list", ZONE).stdout
    node = json.loads(gcloud("compute", "tpus", "tpu-vm", "describe", "n1", ZONE, "--format=json").stdout)
    assert node["acceleratorType"] == "v2-8" and node["metadata"]["a"] == "b"
    gcloud("compute", "tpus", "tpu-vm", "stop", "n1", ZONE)
    gcloud("compute", "tpus", "tpu-vm", "start", "n1", ZONE)
    gcloud("compute", "tpus", "tpu-vm", "update", "n1", ZONE, "--add-tags=blue")
    gcloud("compute", "tpus", "tpu-vm", "delete", "n1", ZONE, "--quiet")


def test_upstreams_errors_reach_the_user(gcloud):
    done = gcloud("compute", "tpus", "tpu-vm", "create", "n1", ZONE, "--accelerator-type=v9-8",
                  "--version=tpu-ubuntu2204-base", check=False)
    assert done.returncode == 1 and "could not be found in the zonal" in done.stderr
    done = gcloud("compute", "tpus", "tpu-vm", "describe", "nobody", ZONE, check=False)
    assert done.returncode == 1 and "was not found" in done.stderr


def test_versions(gcloud):
    assert "tpu-ubuntu2204-base" in gcloud("compute", "tpus", "tpu-vm", "versions", "list", ZONE).stdout
