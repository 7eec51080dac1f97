"""What each version of JAX must be able to do through libtpu.so; prints what it did, or why not."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

assert jax.default_backend() == "tpu" and len(jax.devices()) == 8, jax.devices()
x = jnp.arange(64.0).reshape(8, 8)
np.testing.assert_allclose(jax.jit(jnp.dot)(x, x), np.asarray(x) @ np.asarray(x))
np.testing.assert_allclose(jax.grad(lambda v: (v ** 2).sum())(x), 2 * np.asarray(x))
mesh = Mesh(np.array(jax.devices()), ("x",))
sharded = jax.device_put(x, NamedSharding(mesh, P("x")))
assert jax.jit(jnp.sum)(sharded) == x.sum()
assert len(sharded.addressable_shards) == 8
step = jax.jit(lambda v: v + 1, donate_argnums=0)
y = step(sharded)
assert sharded.is_deleted() and float(y[0, 0]) == 1
assert jax.devices()[0].memory_stats()["bytes_limit"] > 2**30
compiled = jax.jit(lambda v: v @ v).lower(x).compile()
assert compiled.memory_analysis().output_size_in_bytes > 0
np.testing.assert_allclose(jax.random.uniform(jax.random.key(0), (4,)).shape, (4,))
print("works")
