"""HBM is counted and runs out where the chip's would; the host's memory never does."""

HELPERS = """
import gc, jax, jax.numpy as jnp, numpy as np
device = jax.devices()[0]
def stats(): return device.memory_stats()
def in_use(): gc.collect(); return stats()["bytes_in_use"]
def refused(f):
    try: jax.block_until_ready(f())
    except (jax.errors.JaxRuntimeError, ValueError) as error: return str(error)  # as JAX raises it
    raise AssertionError("not refused")
MIB, GIB = 2**20, 2**30
"""


def test_memory_stats_follow_arrays(run):
    run(HELPERS + """
assert in_use() == 0
x = jax.device_put(np.ones(MIB, np.float32), device)
assert in_use() == 4 * MIB
y = jax.jit(lambda v: (v + 1, v.sum()))(x)
assert in_use() == 8 * MIB + 512, in_use()  # a scalar takes a tile
other = jax.device_put(x, jax.devices()[1])
assert in_use() == 8 * MIB + 512 and jax.devices()[1].memory_stats()["bytes_in_use"] == 4 * MIB
x.delete()
del y
assert in_use() == 0
assert stats()["peak_bytes_in_use"] >= 8 * MIB and stats()["largest_alloc_size"] == 4 * MIB
assert stats()["num_allocs"] == 3
""")


def test_a_donated_array_gives_its_memory(run):
    run(HELPERS + """
step = jax.jit(lambda v: v + 1, donate_argnums=0)
x = jax.device_put(np.ones(MIB, np.float32), device)
for _ in range(4):
    old, x = x, step(x)
    assert old.is_deleted() and in_use() == 4 * MIB, in_use()
""")


def test_hbm_runs_out_as_upstream_says_it(run):
    run(HELPERS + """
error = refused(lambda: jnp.zeros(40 * GIB, jnp.int8))
assert "RESOURCE_EXHAUSTED" in error and "Ran out of memory on HBM" in error, error
assert "40.00G" in error and "exceeds available HBM (7.48G)" in error, error
x, y = jnp.ones(3 * GIB, jnp.int8), jnp.ones(3 * GIB, jnp.int8)
jax.block_until_ready((x, y))
error = refused(lambda: x + jnp.int8(1))
assert "RESOURCE_EXHAUSTED" in error and "Attempting to reserve 3.00G" in error, error
assert "There are 1.48G free" in error and "Largest tensors:" in error, error
del y
del x
gc.collect()
assert jnp.ones(8).sum() == 8  # and the process goes on
""", TPU_ACCELERATOR_TYPE="v2-8")


def test_what_fits_the_chip_and_not_the_host_is_refused(run, tmp_path):
    """The VM's limit stands for a small host, so that the test needs no small machine."""
    file = tmp_path / "slice"
    file.write_text(f"ACCELERATOR_TYPE: 'v4-8'\nTORUS_MEMORY_LIMIT_BYTES: '{2 * 2**30}'\n")
    run(HELPERS + """
for refusal in (refused(lambda: jnp.zeros(4 * GIB, jnp.int8)),
                refused(lambda: jax.device_put(np.zeros(4 * GIB, np.int8), device))):
    assert "RESOURCE_EXHAUSTED" in refusal and "fits the chip, not this host" in refusal, refusal
    assert "4.00G" in refusal and "memory limit" in refusal, refusal
# Piece by piece, and without waiting: refused before the host is full.
held = []
error = refused(lambda: [held.append(jnp.ones(128 * MIB, jnp.int8)) for _ in range(64)])
assert "fits the chip, not this host" in error, error
assert 4 <= len(held) < 16, len(held)
del held
gc.collect()
assert jnp.ones(8).sum() == 8
""", TORUS_SLICE=str(file))


def test_more_than_this_host_has_is_refused_and_kills_nobody(run):
    """The real host: 64 chips of 95 GiB hold more than it has."""
    run(HELPERS + """
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("x",))
total = int(open("/proc/meminfo").read().split()[1]) * 1024
make = jax.jit(lambda: jnp.zeros((64, total // 32), jnp.int8),
               out_shardings=NamedSharding(mesh, P("x")))
error = refused(make)
assert "RESOURCE_EXHAUSTED" in error and "host" in error, error
""", TPU_ACCELERATOR_TYPE="v5p-128")


def test_arrays_lie_in_tiles(run):
    """Sizes as the real compiler gives them (src/tpu/device/tiling.h)."""
    run(HELPERS + """
for shape, dtype, tiled in (((3, 5), jnp.float32, 2048), ((1000, 1), jnp.float32, 4096),
                            ((9, 129), jnp.bfloat16, 8192), ((2049,), jnp.int8, 3072),
                            ((9, 129), jnp.int4, 2048), ((12, 12), jnp.complex64, 16384)):
    x = jax.device_put(np.zeros(shape, dtype), device)
    assert in_use() == tiled, (shape, dtype)
    y = jax.jit(lambda v: -v if v.dtype != jnp.int4 else v[::-1])(x)
    assert in_use() == 2 * tiled, (shape, dtype)
    del x, y
""", TPU_ACCELERATOR_TYPE="v5litepod-1")


def test_memory_analysis_counts_tiles(run):
    run(HELPERS + """
shapes = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((1000, 5), (5, 3))]
memory = jax.jit(lambda a, b: a @ b).lower(*shapes).compile().memory_analysis()
assert memory.argument_size_in_bytes == 8 * 1024 * 4 + 4 * 128 * 4, memory
assert memory.output_size_in_bytes == 4 * 1024 * 4, memory
donated = jax.jit(lambda a: a + 1, donate_argnums=0).lower(shapes[0]).compile().memory_analysis()
assert donated.alias_size_in_bytes == donated.output_size_in_bytes == 8 * 1024 * 4, donated
""", TPU_ACCELERATOR_TYPE="v5litepod-1")


def test_an_error_says_what_is_large_and_what_would_fit(run):
    run(HELPERS + """
x, w = jax.ShapeDtypeStruct((2 * MIB, 1024), np.float32), jax.ShapeDtypeStruct((1024, 3), np.float32)
error = refused(lambda: jax.jit(lambda x, w: (x * 2, jnp.tanh(x) @ w)).lower(x, w).compile())
assert "E1000: CompileTimeHbmOom: Ran out of memory on HBM" in error, error
assert "exceeds available HBM (15.75G). HLO module: jit__lambda" in error, error
assert "8.00G f32[2097152,1024]{1,0} parameter: x" in error, error
assert "at <string>:" in error and "If the first dimension, 2097152, is a batch" in error, error
fits = int(error.split("one of ")[1].split(" ")[0])
x = jax.ShapeDtypeStruct((fits, 1024), np.float32)
jax.jit(lambda x, w: (x * 2, jnp.tanh(x) @ w)).lower(x, w).compile()
""", TPU_ACCELERATOR_TYPE="v5litepod-1")
