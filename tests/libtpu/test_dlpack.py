"""Arrays handed to and taken from NumPy by DLPack, as far as JAX lets a TPU's."""

BOTH = {"JAX_PLATFORMS": "tpu,cpu"}


def test_numpy_arrays_come_and_go_by_copies(run):
    """DLPack has no name for a TPU's memory, so what goes is a copy on the CPU."""
    run("""
        import jax, jax.numpy as jnp, numpy as np
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        assert jnp.from_dlpack(x).devices() == {jax.devices("cpu")[0]}
        on_tpu = jnp.from_dlpack(x, device=jax.devices("tpu")[1])
        assert on_tpu.devices() == {jax.devices("tpu")[1]}
        y = jax.jit(lambda v: v * 2)(on_tpu)
        if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
            np.testing.assert_array_equal(np.from_dlpack(y, device="cpu", copy=True), x * 2)
        on_cpu = jax.device_put(y, jax.devices("cpu")[0])
        np.testing.assert_array_equal(np.from_dlpack(on_cpu), x * 2)
        """, **BOTH)


def test_a_chips_own_memory_is_not_handed_out(run):
    run("""
        import jax.numpy as jnp, numpy as np
        x = jnp.ones(3)
        for hand_out in (x.__dlpack_device__, x.__dlpack__, lambda: np.from_dlpack(x)):
            try:
                hand_out()
            except (BufferError, RuntimeError) as error:
                assert "tpu" in str(error).lower(), error
            else:
                raise AssertionError("a TPU's memory by DLPack")
        """)
