"""The main job: the tutorials' network on the real Fashion-MNIST, on every chip."""
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/mnist_jax.py"
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")


def train(environment, *arguments):
    return subprocess.run([sys.executable, str(EXAMPLE), *arguments],
                          env=environment | {"TPU_ACCELERATOR_TYPE": "v2-8"},
                          capture_output=True, text=True, timeout=600)


@pytest.mark.skipif(not DATA.exists(), reason="apt package dataset-fashion-mnist is not installed")
def test_one_epoch_reaches_the_accuracy(environment):
    done = train(environment)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    assert "8 devices: TPU v2" in done.stdout and "TPU_7(process=0,(1,1,0,1))" in done.stdout
    assert re.search(r"epoch 1: loss [\d.]+, \d+ images/s", done.stdout)
    assert float(re.search(r"test accuracy ([\d.]+)", done.stdout)[1]) >= 0.85


def test_says_how_to_get_missing_data(environment):
    done = train(environment, "--data", "/no/such/folder")
    assert done.returncode == 1
    assert "/no/such/folder" in done.stderr
    assert "apt-get install dataset-fashion-mnist" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not DATA.exists(), reason="apt package dataset-fashion-mnist is not installed")
def test_says_what_is_wrong_with_a_batch(environment):
    done = train(environment, "--batch", "100")
    assert done.returncode == 1 and "--batch 100 must be a multiple of the 8 devices" in done.stderr
