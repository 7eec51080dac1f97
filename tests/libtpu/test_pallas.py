"""Pallas: kernels run interpreted; one that is compiled for the chip is refused with the way out."""

KERNEL = """
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

def add_vectors(x, y, out): out[...] = x[...] + y[...]
def add(**how):
    return jax.jit(lambda x, y: pl.pallas_call(
        add_vectors, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), **how)(x, y))
x, y = np.arange(1024, dtype="f").reshape(8, 128), np.ones((8, 128), "f")
"""


def test_a_compiled_kernel_is_refused_by_name(run):
    run(KERNEL + """
try:
    add()(x, y)
    assert False
except jax.errors.JaxRuntimeError as error:
    text = str(error)
    assert text.startswith("UNIMPLEMENTED"), text
    assert "add_vectors" in text and "interpret=True" in text and "InterpretParams" in text, text
""")


def test_interpreted(run):
    run(KERNEL + """
np.testing.assert_array_equal(add(interpret=True)(x, y), x + y)
""")


def test_the_simulated_tpu(run):
    run(KERNEL + """
np.testing.assert_array_equal(add(interpret=pltpu.InterpretParams())(x, y), x + y)

def matmul(x, y, out):
    @pl.when(pl.program_id(2) == 0)
    def _(): out[...] = jnp.zeros_like(out)
    out[...] += x[...] @ y[...]
a, b = np.random.rand(64, 128).astype("f"), np.random.rand(128, 64).astype("f")
product = jax.jit(lambda a, b: pl.pallas_call(
    matmul, grid=(2, 2, 2), out_shape=jax.ShapeDtypeStruct((64, 64), jnp.float32),
    in_specs=[pl.BlockSpec((32, 64), lambda i, j, k: (i, k)),
              pl.BlockSpec((64, 32), lambda i, j, k: (k, j))],
    out_specs=pl.BlockSpec((32, 32), lambda i, j, k: (i, j)),
    interpret=pltpu.InterpretParams())(a, b))(a, b)
np.testing.assert_allclose(product, a @ b, 1e-4)
""", JAX_PLATFORMS="tpu,cpu")
