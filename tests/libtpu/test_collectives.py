"""Collectives that the engine does not have, or refuses as JAX sends them."""

EIGHT = {"JAX_PLATFORMS": "tpu,cpu", "TPU_ACCELERATOR_TYPE": "v5litepod-8",
         "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}


def test_ragged_all_to_all(run):
    """Against the definition, for one axis of two, several runs a device, and any type."""
    run("""
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import PartitionSpec as P
random = np.random.default_rng(0)

def expected(n, k, inputs, outputs, begin, size, to):
    outputs = outputs.copy()
    for sender in range(n):
        for receiver in range(n):
            for e in range(receiver * k, receiver * k + k):
                rows = inputs[sender, begin[sender, e]:begin[sender, e] + size[sender, e]]
                outputs[receiver, to[sender, e]:to[sender, e] + size[sender, e]] = rows
    return outputs

def check(n, k, shape, dtype, axis_size):
    mesh = jax.make_mesh((8 // axis_size, axis_size), ("other", "x"))
    inputs = random.integers(1, 100, (n, 4 * n * k, *shape)).astype(dtype)
    outputs = np.zeros((n, 4 * n * k, *shape), dtype)
    size = random.integers(0, 4, (n, n * k)).astype(np.int32)
    begin = (np.arange(n * k, dtype=np.int32) * 4)[None].repeat(n, 0)
    received = size.reshape(n, n, k).swapaxes(0, 1).reshape(n, n * k)  # [receiver, sender's runs]
    ends = received.cumsum(1, dtype=np.int32)
    to = (ends - received).reshape(n, n, k).swapaxes(0, 1).reshape(n, n * k)
    arguments = inputs, outputs, begin, size, to, received
    def one(*arrays):
        return jax.lax.ragged_all_to_all(*(a[0] for a in arrays), axis_name="x")[None]
    put = jax.device_put(arguments, jax.NamedSharding(mesh, P("x")))
    got = jax.jit(jax.shard_map(one, mesh=mesh, out_specs=P("x"), check_vma=False,
                                in_specs=(P("x"),) * 6))(*put)
    np.testing.assert_array_equal(got, expected(n, k, inputs, outputs, begin, size, to))

check(2, 1, (), np.int32, 2)
check(4, 1, (3, 2), np.float32, 4)
check(8, 3, (5,), jnp.bfloat16, 8)
check(2, 2, (2,), np.uint8, 2)
""", **EIGHT)


def test_sums_that_are_yet_to_be_made(run):
    """Programs with unreduced values, that newer compilers refuse as JAX 0.10 sends them."""
    run("""
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, Mesh, PartitionSpec as P

def parts(devices):
    mesh = Mesh(np.array(devices[:4]).reshape(2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    found = []
    def note(a): found.append([np.asarray(shard.data) for shard in a.addressable_shards])
    with jax.set_mesh(mesh):
        left = jax.device_put(np.arange(16.).reshape(8, 2), P("x", "y"))
        right = jax.device_put(np.arange(8.).reshape(2, 4), P("y", None))
        sums = jnp.dot(left, right, out_sharding=P("x", unreduced={"y"}))
        note(sums)
        for axes, out in (([0], None), ([0], P(unreduced={"x"})), ([0, 1], P(unreduced={"x"}))):
            note(jax.jit(lambda a: jax.lax.reduce_sum(a, axes=axes, out_sharding=out))(sums))
        unreduced = P("x", unreduced={"y"})
        whole = jax.shard_map(lambda a: jax.lax.psum(a, "y"), in_specs=unreduced, out_specs=P("x"))
        note(jax.jit(whole)(sums))
        cast = jax.shard_map(lambda a: a, in_specs=unreduced, out_specs=P("x"), check_vma=False)
        note(jax.jit(cast)(sums))
        note(jax.reshard(sums, P("x")))
    return found

for on_cpu, on_tpu in zip(parts(jax.devices("cpu")), parts(jax.devices("tpu"))):
    np.testing.assert_allclose(on_cpu, on_tpu)
""", **EIGHT)
