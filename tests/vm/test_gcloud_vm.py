"""The real gcloud against a real TPU VM: the tutorials' commands, no extra flag."""
import shlex
import shutil
import subprocess

import pytest

import torus

pytestmark = pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed")


def gcloud(local, *arguments, check=True):
    command = shlex.join(["gcloud", "compute", "tpus", "tpu-vm", *arguments, f"--zone={torus.ZONE}"])
    setup = f'eval "$({torus.BINARY} env --endpoint {local.url} --project={torus.PROJECT})"'
    done = subprocess.run(["bash", "-c", f"{setup} && {command}"], env=local.environment,
                          capture_output=True, text=True, timeout=300)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def test_a_nodes_life(local, tmp_path):
    gcloud(local, "create", "g1", "--accelerator-type=v2-8", "--version=tpu-ubuntu2204-base")
    assert "READY" in gcloud(local, "list").stdout
    assert "acceleratorType: v2-8" in gcloud(local, "describe", "g1").stdout
    assert "t1v-n-" in gcloud(local, "ssh", "dev@g1", "--quiet", "--command=hostname").stdout
    (tmp_path / "file").write_text("by scp\n")
    gcloud(local, "scp", str(tmp_path / "file"), "dev@g1:copied", "--quiet")
    gcloud(local, "scp", "dev@g1:copied", str(tmp_path / "back"), "--quiet")
    assert (tmp_path / "back").read_text() == "by scp\n"
    gcloud(local, "stop", "g1")
    assert "STOPPED" in gcloud(local, "list").stdout
    gcloud(local, "start", "g1")
    assert gcloud(local, "ssh", "dev@g1", "--quiet", "--command=cat copied").stdout.strip() == "by scp"
    gcloud(local, "delete", "g1", "--quiet")
    assert "g1" not in gcloud(local, "list").stdout
