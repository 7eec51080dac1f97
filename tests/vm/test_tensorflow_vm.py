"""TensorFlow in a TPU VM: both tutorials' commands, by the real gcloud, and every way to name the TPU.

The VM's runtime version brings TensorFlow, so its image takes minutes to make the first time, and
4 GB. TensorFlow 2.13.0 is always run; with TORUS_SOAK=1 also 2.17.1 and 2.21.0, stock ones that go through
the VM's worker like it, and 2.20.0, which has the TPU in its own process.

MNIST itself comes from the network, and Keras checks its hash: the programs run with the one word
mnist changed to fashion_mnist, whose files Debian has. TORUS_MNIST_NPZ=mnist.npz has them run to the letter.
"""
import os
import re
import shlex
import shutil
import subprocess
import time

import pytest

import torus

TUTORIALS = torus.ROOT / "examples/tutorials"
NPZ = os.environ.get("TORUS_MNIST_NPZ")
soak = pytest.mark.skipif(not os.environ.get("TORUS_SOAK"), reason="long, or another image of 4 GB: TORUS_SOAK=1")
VERSIONS = ["2.13.0"] + [pytest.param(v, marks=soak) for v in ("2.17.1", "2.20.0", "2.21.0")]

pytestmark = pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed")


class TensorFlowVm:
    """A v2-8 that gcloud made, and what a user types there."""

    def __init__(self, local, version, folder):
        self.local, self.version, self.name = local, version, "my-first-tpu"
        self.gcloud("create", self.name, "--accelerator-type=v2-8", f"--version={version}")
        while not re.search(rf"{self.name}.*READY", self.gcloud("list")):
            time.sleep(1)
        if version != "2.20.0":  # whose image has tensorflow-tpu, and needs no other
            self.says("pip install --upgrade pip")
            self.says(f"pip install tensorflow=={version}")
        self.says("pip install cloud-tpu-client")
        self._bring_data(folder)

    def gcloud(self, *arguments):
        command = shlex.join(["gcloud", "compute", "tpus", "tpu-vm", *arguments, f"--zone={torus.ZONE}"])
        setup = f'eval "$({torus.BINARY} env --endpoint {self.local.url} --project={torus.PROJECT})"'
        done = subprocess.run(["bash", "-c", f"{setup} && {command}"], env=self.local.environment,
                              capture_output=True, text=True, timeout=1200)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def says(self, command):
        """What a command prints in the VM."""
        return self.gcloud("ssh", f"dev@{self.name}", "--quiet", f"--command={command}")

    def python(self, program, **options):
        """The exit code, and what a Python program prints in the VM."""
        done = self.local.ssh(self.name, shlex.join(["python3", "-c", program]), check=False, **options)
        return done.returncode, done.stdout + done.stderr

    def _bring_data(self, folder):
        for tutorial in TUTORIALS.glob("*.py"):
            text = tutorial.read_text()
            if not NPZ:
                text = text.replace("keras.datasets.mnist.", "keras.datasets.fashion_mnist.")
            (folder / tutorial.name).write_text(text)
            self.gcloud("scp", str(folder / tutorial.name), f"dev@{self.name}:", "--quiet")
        if NPZ:
            self.says("mkdir -p .keras/datasets")
            self.gcloud("scp", NPZ, f"dev@{self.name}:.keras/datasets/mnist.npz", "--quiet")
        else:
            self.says("sudo apt-get -qq update && "
                      "sudo apt-get -qq install -y --no-install-recommends dataset-fashion-mnist && "
                      "mkdir -p .keras/datasets && "
                      "cp -r /usr/share/datasets/fashion-mnist .keras/datasets/fashion-mnist")


@pytest.fixture(scope="module", params=VERSIONS)
def vm(local, request, tmp_path_factory):
    vm = TensorFlowVm(local, request.param, tmp_path_factory.mktemp("tutorials"))
    yield vm
    vm.gcloud("delete", vm.name, "--quiet")


@pytest.mark.parametrize("tutorial", ["tpu_template.py", "tpu_mnist.py"])
def test_a_tutorial_trains_on_the_tpu(vm, tutorial):
    said = vm.says(f"python3 {tutorial}")
    assert "Running on TPU" in said and "Number of replicas: 8" in said, said[:3000]
    if tutorial == "tpu_template.py":
        assert "device:TPU:7" in said and "Using strategy: TPUStrategy" in said, said[:3000]
    assert float(re.search(r"^val_accuracy: ([\d.]+)", said, re.MULTILINE)[1]) > 0.85, said[-3000:]


FIND = """
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TPUClusterResolver({tpu})
tf.config.experimental_connect_to_cluster(resolver)
tf.tpu.experimental.initialize_tpu_system(resolver)
print("devices", len(tf.config.list_logical_devices("TPU")), "at", repr(resolver.master()))
"""


@pytest.mark.parametrize("tpu", ["", "'my-first-tpu'", "'grpc://127.0.0.1:8470'"])
def test_every_way_to_name_the_tpu(vm, tpu):
    code, said = vm.python(FIND.format(tpu=tpu))
    assert code == 0 and "devices 8 at" in said, said


def test_clients_that_begin_at_once(vm):
    program = FIND.format(tpu="'grpc://127.0.0.1:8470'") + """
strategy = tf.distribute.TPUStrategy(resolver)
@tf.function
def step(x):
    def add(x):
        return tf.distribute.get_replica_context().all_reduce("sum", x)
    return strategy.run(add, args=(x,))
for number in range(50):
    assert float(strategy.experimental_local_results(step(tf.constant(1.0 + number)))[7]) == 8 * (1 + number)
print("all as they should be")
"""
    one = f"python3 -c {shlex.quote(program)} 2>&1 | tail -3"
    said = vm.says(f"({one}) & ({one}) & ({one}); wait")
    assert said.count("all as they should be") == 3, said


def test_a_wrong_name_is_told_the_right_one(vm):
    code, said = vm.python(FIND.format(tpu="'my-second-tpu'"))
    assert code != 0 and "only its own node" in said and "my-first-tpu" in said, said


def test_a_client_that_was_killed_leaves_the_worker_to_the_next(vm):
    program = FIND.format(tpu="'grpc://127.0.0.1:8470'") + """
strategy = tf.distribute.TPUStrategy(resolver)
@tf.function
def steps():
    def step():
        x = tf.random.normal((256, 256))
        for _ in tf.range(100000000):
            x = tf.tanh(x @ x)
        return tf.distribute.get_replica_context().all_reduce("sum", x)
    return strategy.run(step)
open("running", "w").close()
print(steps())
"""
    vm.says("rm -f running; nohup python3 -c " + shlex.quote(program) +
            " >killed.log 2>&1 & until [ -e running ]; do sleep 0.2; done; sleep 3; kill -KILL $! || cat killed.log")
    begin = time.monotonic()
    code, said = vm.python(FIND.format(tpu="'grpc://127.0.0.1:8470'"))
    assert code == 0 and "devices 8 at" in said, said
    print(f"the next client was served {time.monotonic() - begin:.1f} s after the kill")


def test_who_holds_the_tpu_is_said(vm):
    holder = FIND.format(tpu="'local'") + "open('held', 'w').close(); import time; time.sleep(600)"
    vm.says("rm -f held; nohup /opt/tensorflow-worker/bin/python -c " + shlex.quote(holder) +
            " >held.log 2>&1 & echo $! >holder; until [ -e held ]; do sleep 0.2; done")
    code, said = vm.python(FIND.format(tpu="'grpc://127.0.0.1:8470'"))
    pid = vm.says("cat holder; kill -KILL $(cat holder)").strip()
    assert code != 0 and f"already in use by process with pid {pid}" in said, said
