"""TensorFlow in the same process: two copies of XLA, Abseil and protobuf, and neither minds.

Optional: skipped where TensorFlow (tried: tensorflow-cpu 2.21.0) is missing.
"""
import importlib.util

import pytest

# A folder of that name, such as tests/tensorflow, has no origin.
INSTALLED = getattr(importlib.util.find_spec("tensorflow"), "origin", None) is not None
pytestmark = pytest.mark.skipif(not INSTALLED, reason="tensorflow is not installed")

JAX = "import jax, jax.numpy as jnp; assert jnp.ones((64, 64)).sum() == 4096 and len(jax.devices()) == 4"
TENSORFLOW = """
import tensorflow as tf
step = tf.function(lambda x: tf.reduce_sum(tf.matmul(x, x)), jit_compile=True)
assert float(step(tf.ones((8, 8)))) == 512
"""


@pytest.mark.parametrize("order", ["tensorflow first", "jax first"])
def test_both_work_in_one_process(run, order):
    parts = [TENSORFLOW, JAX] if order == "tensorflow first" else [JAX, TENSORFLOW]
    run("\n".join(parts + parts[:1]))
