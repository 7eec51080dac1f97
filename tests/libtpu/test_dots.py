"""Dots that the engine does not have as they are: ragged ones, and of numbers of four bits."""

DOTS = """
import jax, jax.numpy as jnp, numpy as np
random = np.random.default_rng(0)
cpu, tpu = jax.devices("cpu")[0], jax.devices("tpu")[0]
def same(function, *arguments):
    on = [jax.tree.map(np.asarray, jax.jit(function)(*jax.device_put(arguments, device)))
          for device in (cpu, tpu)]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-4), *on)
"""
BOTH = {"JAX_PLATFORMS": "tpu,cpu"}


def test_ragged_dot_and_its_gradients(run):
    run(DOTS + """
lhs = random.standard_normal((16, 8)).astype("f")
rhs = random.standard_normal((3, 8, 5)).astype("f")
for sizes in ([4, 5, 7], [0, 16, 0], [1, 2, 3], [0, 0, 0]):  # also rows that belong to no group
    sizes = np.array(sizes, np.int32)
    same(jax.lax.ragged_dot, lhs, rhs, sizes)
    same(jax.grad(lambda l, r, s: (jax.lax.ragged_dot(l, r, s) ** 2).sum(), argnums=(0, 1)),
         lhs, rhs, sizes)
same(jax.lax.ragged_dot, lhs.astype(jnp.bfloat16).astype("f"), rhs, np.array([16, 0, 0], np.int64))
""", **BOTH)


def test_ragged_dot_over_eight_chips(run):
    run(DOTS + """
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.sharding.Mesh(np.array(jax.devices("tpu")), ("x",))
lhs = random.standard_normal((16, 8)).astype("f")
rhs = random.standard_normal((3, 8, 16)).astype("f")
sizes = np.array([4, 5, 7], np.int32)
rhs_over = jax.device_put(rhs, NamedSharding(mesh, P(None, None, "x")))
y = jax.jit(jax.lax.ragged_dot)(lhs, rhs_over, sizes)
groups = np.repeat(np.arange(3), sizes)
np.testing.assert_allclose(y, np.stack([a @ rhs[g] for a, g in zip(lhs, groups)]), 1e-4, 1e-4)
""", TPU_ACCELERATOR_TYPE="v5litepod-8", **BOTH)


def test_ragged_dots_of_batches(run):
    """Sizes for each batch, a contracted and a batched ragged dimension, and a vmap of gradients."""
    run(DOTS + """
def ragged(lhs, rhs, sizes, contract, batch, row, group=()):
    numbers = jax.lax.RaggedDotDimensionNumbers((contract, batch), [row], group)
    same(lambda l, r, s: jax.lax.ragged_dot_general(l, r, s, numbers), lhs, rhs,
         np.array(sizes, np.int32))
def floats(*shape): return random.standard_normal(shape).astype("f")
for sizes in ([4, 5, 7], [[4, 5, 7], [1, 2, 3]]):
    ragged(floats(2, 16, 8), floats(2, 3, 8, 5), sizes, ([2], [2]), ([0], [0]), 1, [1])
    ragged(floats(2, 16, 5), floats(2, 16, 7), sizes, ([1], [1]), ([0], [0]), 1)
ragged(floats(6, 4, 5), floats(6, 5, 7), [4, 2], ([2], [1]), ([0], [0]), 0)
same(jax.vmap(jax.grad(lambda l, r, s: (jax.lax.ragged_dot(l, r, s) ** 2).sum(), argnums=(0, 1))),
     floats(4, 16, 8), floats(4, 3, 8, 5), random.integers(0, 6, (4, 3)).astype(np.int32))
""", **BOTH)


ODD = DOTS + """
def ragged(lhs, rhs, sizes, contract, batch, row, group=()):
    numbers = jax.lax.RaggedDotDimensionNumbers((contract, batch), [row], group)
    lhs, rhs = (random.standard_normal(shape).astype("f") for shape in (lhs, rhs))
    same(lambda l, r, s: jax.lax.ragged_dot_general(l, r, s, numbers), lhs, rhs, np.array(sizes, np.int32))
"""
# Batches that do not come first, and have sizes of their own; several free dimensions of the left
# side; a ragged dimension that is one of several contracted ones. jaxlib 0.10.2 cannot convert
# them for any plugin, Google's libtpu among them; JAX can expand them.
JAXLIB_CANNOT_CONVERT = [
    "ragged((16, 8, 2), (2, 3, 8, 5), [[4, 5, 7], [1, 2, 3]], ([1], [2]), ([2], [0]), 0, [1])",
    "ragged((6, 16, 8), (3, 8, 5), [4, 5, 7], ([2], [1]), ([], []), 1, [0])",
    "ragged((2, 16, 8), (3, 8, 5), [[4, 5, 7], [1, 2, 3]], ([2], [1]), ([], []), 1, [0])",
    "ragged((16, 4, 5), (4, 16, 7), [4, 5, 7], ([0, 1], [1, 0]), ([], []), 0)",
]


def test_ragged_dots_in_other_orders(run):
    run(ODD + """
ragged((16, 8, 2), (2, 3, 8, 5), [4, 5, 7], ([1], [2]), ([2], [0]), 0, [1])
ragged((16, 8), (8, 5, 3), [4, 5, 7], ([1], [0]), ([], []), 0, [2])
ragged((8, 16), (3, 5, 8), [4, 5, 7], ([0], [2]), ([], []), 1, [0])
ragged((16, 8, 4), (3, 4, 8, 5), [4, 5, 7], ([2, 1], [1, 2]), ([], []), 0, [0])
ragged((2, 4, 16, 8), (4, 2, 3, 8, 5), [4, 5, 7], ([3], [3]), ([1, 0], [0, 1]), 2, [2])
ragged((16, 5, 2), (16, 2, 7), [4, 5, 7], ([0], [0]), ([2], [1]), 0)
ragged((3, 6, 4, 5), (3, 6, 5, 7), [[4, 2], [1, 5], [0, 6]], ([3], [2]), ([0, 1], [0, 1]), 1)
""", **BOTH)


def test_ragged_dots_that_jaxlib_cannot_convert(run):
    for dot in JAXLIB_CANNOT_CONVERT:
        assert "CHLO => [StableHLO+Shape] => StableHLO failed" in run(ODD + dot, fails=True, **BOTH)
    run(ODD + "\n".join(JAXLIB_CANNOT_CONVERT), JAX_RAGGED_DOT_USE_RAGGED_DOT_INSTRUCTION="False", **BOTH)


def test_dots_of_four_bits(run):
    run(DOTS + """
for dtype in (jnp.int4, jnp.uint4):
    a = jnp.arange(24).reshape(4, 6).astype(dtype)
    x = np.asarray(a).astype(np.int32)
    for result in (jnp.int32, jnp.float32):
        y = jax.jit(lambda a: jax.lax.dot(a, a.T, preferred_element_type=result))(a)
        np.testing.assert_array_equal(y, x @ x.T)
    y = jax.jit(lambda b, a: jax.lax.dot(b, a, preferred_element_type=jnp.float32))(
        jnp.ones((3, 4), jnp.bfloat16), a)
    np.testing.assert_array_equal(y, np.ones((3, 4)) @ x)
""", **BOTH)
