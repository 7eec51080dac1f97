"""Linear algebra whose lowering for TPUs needs code of Torus's own, beside JAX's native CPU."""

COMPARE = """
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
cpu, tpu = jax.devices("cpu")[0], jax.devices("tpu")[0]
random = np.random.default_rng(0)

def matrices(dtype, *shape):
    a = random.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating): a = a + 1j * random.standard_normal(shape)
    return a.astype(dtype)

def same(function, *arguments, tolerance=None):
    on = [jax.tree.map(np.asarray, jax.jit(function)(*jax.device_put(arguments, device)))
          for device in (cpu, tpu)]
    exact = arguments[0].dtype in (np.float64, np.complex128)
    tolerance = tolerance or (1e-9 if exact else 2e-3)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, tolerance, tolerance), *on)
"""


def test_lu_and_what_is_made_of_it(run):
    run(COMPARE + """
for dtype in (np.float32, np.float64, np.complex64, np.complex128):
    for shape in ((1, 1), (5, 5), (70, 70), (2, 3, 6, 6), (7, 4), (4, 7), (0, 0), (3, 0, 0)):
        same(jax.lax.linalg.lu, matrices(dtype, *shape))
    a, b = matrices(dtype, 3, 9, 9), matrices(dtype, 3, 9, 2)
    for function in (jnp.linalg.inv, jnp.linalg.det, jnp.linalg.slogdet):
        same(function, a)
    same(jnp.linalg.solve, a, b)
    same(lambda a, b: jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(a), b), a[0], b[0])
    same(jax.vmap(jnp.linalg.solve), a, b)
""", JAX_PLATFORMS="tpu,cpu")


def test_a_singular_matrix_is_no_error(run):
    run(COMPARE + """
singular = np.ones((3, 3), np.float32)
same(jnp.linalg.det, singular)
same(jax.lax.linalg.lu, singular)
assert not np.isfinite(np.asarray(jnp.linalg.inv(jax.device_put(singular, tpu)))).all()
""", JAX_PLATFORMS="tpu,cpu")


def test_gradients(run):
    run(COMPARE + """
a, b = matrices(np.float64, 6, 6), matrices(np.float64, 6, 2)
same(jax.grad(lambda a, b: jnp.linalg.solve(a, b).sum(), argnums=(0, 1)), a, b)
same(jax.grad(lambda a: jnp.linalg.slogdet(a)[1]), a)
""", JAX_PLATFORMS="tpu,cpu")


def test_a_batch_over_eight_chips(run):
    run(COMPARE + """
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((8,), ("x",), devices=jax.devices("tpu"))
a, b = matrices(np.float64, 16, 20, 20), matrices(np.float64, 16, 20, 1)
over = NamedSharding(mesh, P("x"))
x = jax.jit(jax.shard_map(jnp.linalg.solve, mesh=mesh, in_specs=P("x"), out_specs=P("x")))(
    *jax.device_put((a, b), over))
np.testing.assert_allclose(np.asarray(x), np.linalg.solve(a, b), 1e-9, 1e-9)
np.testing.assert_allclose(jax.jit(jnp.linalg.det)(jax.device_put(a, over)), np.linalg.det(a), 1e-9)
""", JAX_PLATFORMS="tpu,cpu", TPU_ACCELERATOR_TYPE="v5litepod-8")


def test_what_jax_does_not_have_on_a_tpu(run):
    """eig and schur: JAX has rules for the CPU (and eig for GPUs), none for a TPU."""
    run("""
import jax, jax.numpy as jnp
for function in (jnp.linalg.eig, jax.scipy.linalg.schur):
    try:
        function(jnp.eye(3))
    except NotImplementedError as error:
        assert "not found for platform tpu" in str(error), error
    else:
        raise AssertionError("JAX has a rule now: is it right here?")
    assert function(jax.device_put(jnp.eye(3), jax.devices("cpu")[0]))[0].shape[0] == 3
""", JAX_PLATFORMS="tpu,cpu")
