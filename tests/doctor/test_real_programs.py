"""What the real frameworks say on the software TPU is understood: `torus doctor -- python3 …` names each fault."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TORUS = os.environ.get("TORUS", str(ROOT / "build/release/torus"))
LIBTPU = os.environ.get("TORUS_LIBTPU", str(ROOT / "build/release/libtpu.so"))
TENSORFLOW = ROOT / "build/tensorflow/2.20.0/bin/python"


def diagnose(python, program, **variables):
    """What the doctor says of a program: {id: cause}."""
    ours = ("TPU_", "TORUS_", "JAX_", "TF_", "XLA_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    env |= {"TPU_LIBRARY_PATH": LIBTPU, "TPU_ACCELERATOR_TYPE": "v5litepod-8", "TPU_LOAD_LIBRARY": "1",
            "TORUS_PROGRAM_CACHE": "off", "JAX_PLATFORMS": "tpu,cpu"} | variables
    done = subprocess.run([TORUS, "doctor", "--format=json", "--", python, "-c", program], env=env, text=True,
                          capture_output=True, timeout=300)
    said, _, report = done.stderr.rpartition('{\n  "findings"')
    return {finding["id"]: finding["cause"] for finding in json.loads('{\n  "findings"' + report)["findings"]}, said


JAX = {
    "TD024": ("""
import jax, numpy as np
mesh = jax.make_mesh((8,), ("data",))
jax.device_put(np.ones((100, 784)), jax.NamedSharding(mesh, jax.P("data")))
""", "A batch of 100 cannot be shared by 8 replicas."),
    "TD026": ("""
import jax.numpy as jnp
print(jnp.ones((64 << 30,), jnp.int8).sum())
""", "does not fit the chip's memory"),
    "TD033": ("""
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
def add_one(x, out):
    out[...] = x[...] + 1
x = jnp.ones((8, 128))
print(pl.pallas_call(add_one, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x))
""", "(add_one)"),
}


@pytest.mark.parametrize("id", JAX)
def test_jax(id):
    program, cause = JAX[id]
    found, said = diagnose(sys.executable, program)
    assert set(found) == {id} and cause in found[id], said


def test_jax_that_is_well():
    found, said = diagnose(sys.executable, "import jax.numpy as jnp; print(jnp.ones(8).sum())")
    assert found == {}, said


CONNECT = """
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
tf.config.experimental_connect_to_cluster(resolver)
"""
INITIALIZE = CONNECT + "tf.tpu.experimental.initialize_tpu_system(resolver)\n"
TENSORFLOW_FAULTS = {
    "TD024": (INITIALIZE + """
strategy = tf.distribute.TPUStrategy(resolver)
strategy.distribute_datasets_from_function(
    lambda context: tf.data.Dataset.range(800).batch(context.get_per_replica_batch_size(100)))
""", "A batch of 100 cannot be shared by 8 replicas."),
    "TD025": (INITIALIZE + """
strategy = tf.distribute.TPUStrategy(resolver)
@tf.function
def step(size):
    def tiled():
        return tf.tile(tf.ones((2,)), tf.cast(tf.random.uniform((1,), 1, 3), tf.int32) * size)
    return strategy.run(tiled)
print(step(tf.constant(3)))
""", "must know it before the program runs"),
    "TD004": (INITIALIZE + "tf.tpu.experimental.initialize_tpu_system(resolver)\n", "initialised twice"),
    "TD041": (INITIALIZE + "tf.distribute.TPUStrategy(resolver).run(lambda: tf.ones(()))\n", "outside of a tf.function"),
}


@pytest.mark.skipif(not TENSORFLOW.exists(), reason="build/tensorflow/2.20.0 is not there; scripts/tensorflow.sh")
@pytest.mark.parametrize("id", TENSORFLOW_FAULTS)
def test_tensorflow(id):
    program, cause = TENSORFLOW_FAULTS[id]
    found, said = diagnose(str(TENSORFLOW), program, TPU_ACCELERATOR_TYPE="v2-8")
    assert id in found and cause in found[id], said[-3000:]
