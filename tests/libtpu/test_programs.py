"""Programs run, on one device and on all."""

V2 = {"TPU_ACCELERATOR_TYPE": "v2-8"}


def test_matmul_and_gradient(run):
    run("""
        import jax, jax.numpy as jnp, numpy as np
        a = np.random.default_rng(0).normal(size=(128, 64)).astype(np.float32)
        b = np.random.default_rng(1).normal(size=(64, 32)).astype(np.float32)
        np.testing.assert_allclose(jnp.dot(a, b, precision="highest"), a @ b, rtol=1e-4, atol=1e-4)
        grad = jax.grad(lambda x: (x ** 3).sum())(jnp.arange(4.0))
        np.testing.assert_allclose(grad, 3 * np.arange(4.0) ** 2)
        assert jnp.ones(8, jnp.bfloat16).sum() == 8
        """)


def test_collectives_over_all_chips(run):
    run("""
        import jax, jax.numpy as jnp, numpy as np
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
        mesh = Mesh(np.array(jax.devices()), ("x",))
        x = jax.device_put(jnp.arange(16.0), NamedSharding(mesh, P("x")))
        def over(f, out):
            return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=out))
        np.testing.assert_allclose(over(lambda v: jax.lax.psum(v.sum(), "x"), P())(x), 120)
        ring = [(i, (i + 1) % 8) for i in range(8)]
        rotated = over(lambda v: jax.lax.ppermute(v, "x", ring), P("x"))
        np.testing.assert_allclose(rotated(x), np.roll(np.arange(16.0), 2))
        gathered = over(lambda v: jax.lax.all_gather(v, "x", tiled=True)[None], P("x"))(x)
        np.testing.assert_allclose(gathered, np.tile(np.arange(16.0), (8, 1)))
        assert len(x.sharding.device_set) == 8
        total = jax.jit(jnp.sum, out_shardings=NamedSharding(mesh, P()))(x)  # partitioned by XLA
        assert total == 120
        """, **V2)


def test_an_array_is_copied_to_the_chip(run):
    """A chip has its own memory: what happens to the host's array later is not seen."""
    run("""
        import jax, numpy as np
        host = np.ones((512, 512), np.float32)
        on_chip = jax.device_put(host)
        on_chip.block_until_ready()
        host[:] = 7
        assert float(on_chip.max()) == 1
        """)


def test_options_of_the_tpu_compiler_are_taken(run):
    run("""
        import jax, jax.numpy as jnp
        f = jax.jit(lambda x: 2 * x, compiler_options={
            "xla_tpu_enable_async_collective_fusion": True, "xla_tpu_scoped_vmem_limit_kib": 65536})
        assert f(jnp.ones(3)).sum() == 6
        """)


def test_a_failed_compilation_leaves_the_process_usable(run):
    assert "raised" in run("""
        import jax, jax.numpy as jnp
        try:
            jax.jit(lambda x: jax.ffi.ffi_call("no_such_target",
                    jax.ShapeDtypeStruct(x.shape, x.dtype))(x))(jnp.ones(3))
        except jax.errors.JaxRuntimeError as error:
            assert "no_such_target" in str(error), error
            print("raised")
        assert jax.jit(lambda x: x + 1)(jnp.ones(3)).sum() == 6
        """)


def test_memory_kinds(run):
    run("""
        import jax, jax.numpy as jnp
        from jax.sharding import SingleDeviceSharding
        device = jax.devices()[0]
        kinds = {m.kind for m in device.addressable_memories()}
        assert {"device", "pinned_host"} <= kinds and device.default_memory().kind == "device"
        x = jax.device_put(jnp.ones(1024), SingleDeviceSharding(device, memory_kind="pinned_host"))
        assert x.sharding.memory_kind == "pinned_host" and x.sum() == 1024
        """)


def test_a_serialized_program_of_eight_chips_runs_again(run):
    run("""
import jax, numpy as np
from jax.experimental import serialize_executable
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((8,), ("x",))
x = jax.device_put(np.arange(16, dtype="f"), NamedSharding(mesh, P("x")))
parts = serialize_executable.serialize(jax.jit(lambda x: x + 1).lower(x).compile())
# JAX takes the devices in their own order unless it is told the mesh's.
again = serialize_executable.deserialize_and_load(*parts, execution_devices=list(mesh.devices.flat))
np.testing.assert_array_equal(again(x), np.arange(16) + 1)
""", TPU_ACCELERATOR_TYPE="v5litepod-8")


def test_an_array_without_values(run):
    run("""
        import jax, jax.numpy as jnp
        for dtype in (jnp.float32, jnp.bfloat16, jnp.int8, bool):
            x = jax.jit(lambda: jax.lax.empty((3, 4), dtype))()
            assert x.shape == (3, 4) and x.dtype == dtype
        """)


def test_a_program_asks_how_its_values_are_shared_out(run):
    run("""
        import jax, jax.numpy as jnp
        from jax.sharding import NamedSharding, PartitionSpec as P
        mesh = jax.make_mesh((4, 2), ("x", "y"))
        found = []
        def inspect(v): jax.debug.inspect_array_sharding(v, callback=found.append)
        @jax.jit
        def step(a, b):
            inspect(a)
            product = a @ b
            inspect(product)
            inspect(product.T)
            return product.sum()
        a = jax.device_put(jnp.ones((16, 8)), NamedSharding(mesh, P("x", None)))
        b = jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, P(None, "y")))
        with jax.set_mesh(mesh):
            assert step(a, b) == 16 * 8 * 4
        shown = {sharding.spec for sharding in found}
        assert {P("x"), P("x", "y"), P("y", "x")} <= shown, shown
        def bad(sharding): raise ValueError("of the inspector")
        try:
            jax.jit(lambda v: [jax.debug.inspect_array_sharding(v, callback=bad), v * 2][1])(a)
        except Exception as error:
            assert "of the inspector" in str(error), error
        else:
            raise AssertionError("an exception of the callback is lost")
        """, TPU_ACCELERATOR_TYPE="v5litepod-8")


def test_what_jax_marks_as_used_is_no_error(run):
    run("""
        import jax, jax.numpy as jnp
        from jax._src.lax import lax
        def f(x):
            lax.dce_sink(x * 3, prevent_mlir_dce=True)
            return x + 1
        assert float(jax.jit(f)(1.0)) == 2
        """)
