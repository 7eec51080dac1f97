"""Host callbacks: a program calls Python of the process it runs in."""

CALLBACKS = """
import threading, time
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import io_callback
from jax.sharding import NamedSharding, PartitionSpec as P
S = jax.ShapeDtypeStruct

def on_host(function, result):
    return jax.jit(lambda *x: jax.pure_callback(function, result, *x))
"""
TPU = {"JAX_PLATFORMS": "tpu,cpu"}  # callbacks get arrays of JAX's CPU: JAX's own rule
EIGHT = TPU | {"TPU_ACCELERATOR_TYPE": "v5litepod-8"}


def test_debug_print(run):
    out = run(CALLBACKS + """
@jax.jit
def f(x):
    jax.debug.print("x is {x}", x=x)
    jax.debug.print("no argument")
    return x + 1
f(jnp.arange(3)).block_until_ready()
jax.effects_barrier()
""", **TPU)
    assert sorted(out.splitlines()) == ["no argument", "x is [0 1 2]"]


def test_pure_callback_of_every_type(run):
    run(CALLBACKS + """
jax.config.update("jax_enable_x64", True)
for dtype in ("bool", "int4", "uint4", "int8", "uint8", "int16", "int32", "int64", "uint64", "bfloat16", "float16",
              "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "int2"):
    for shape in ((), (1,), (7,), (3, 5)):
        x = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(jnp.dtype(dtype))
        y = on_host(lambda v: np.asarray(v), S(shape, x.dtype))(x)
        assert y.dtype == x.dtype and (np.asarray(y) == x).all(), (dtype, shape, x, y)
x = np.arange(-8, 8).astype(jnp.int4)
assert (np.asarray(on_host(lambda v: np.asarray(v), S((16,), jnp.int4))(x)) == x).all()
""", **TPU)


def test_arguments_and_results(run):
    run(CALLBACKS + """
f = on_host(lambda a, b: (a + b, np.asarray(a).T.copy()), (S((2, 3), jnp.float32),
                                                           S((3, 2), jnp.float32)))
a, b = np.arange(6, dtype="f").reshape(2, 3), np.ones((2, 3), "f")
total, turned = f(a, b)
np.testing.assert_array_equal(total, a + b)
np.testing.assert_array_equal(turned, a.T)
# An array that the program has in another layout, nothing in, nothing out, and an empty one.
np.testing.assert_array_equal(jax.jit(lambda x: on_host(lambda v: np.asarray(v),
                                                        S((3, 2), jnp.float32))(x.T))(a), a.T)
assert jax.jit(lambda: io_callback(lambda: np.float32(3), S((), jnp.float32)))() == 3
assert on_host(lambda v: np.zeros((0,), "f"), S((0,), jnp.float32))(np.zeros((0,), "f")).size == 0
""", **TPU)


def test_in_loops_branches_and_maps(run):
    run(CALLBACKS + """
def add(a, b): return np.float32(a) + np.float32(b)
total, _ = jax.lax.scan(lambda c, x: (on_host(add, S((), jnp.float32))(c, x), None),
                        np.float32(0), np.arange(100, dtype="f"))
assert total == 4950
f = jax.jit(lambda x: jax.lax.cond(x > 0, lambda x: on_host(lambda v: v * 2, S((), jnp.float32))(x),
                                   lambda x: x, x))
assert f(np.float32(3)) == 6 and f(np.float32(-3)) == -3
sin = jax.vmap(lambda x: jax.pure_callback(lambda v: np.sin(v), S((), jnp.float32), x,
                                           vmap_method="sequential"))
np.testing.assert_allclose(jax.jit(sin)(np.arange(5, dtype="f")), np.sin(np.arange(5)), 1e-6)
""", **TPU)


def test_ordered_effects_keep_their_order(run):
    run(CALLBACKS + """
log = []
def note(i):
    time.sleep(0.002 * (int(i) % 3))  # what comes later would overtake
    log.append(int(i))
@jax.jit
def f(x):
    for i in range(10):
        io_callback(note, None, x + i, ordered=True)
    return x
for step in range(5): f(jnp.int32(10 * step))
jax.effects_barrier()
assert log == list(range(50)), log
""", **TPU)


def test_an_exception_is_the_programs_error(run):
    run(CALLBACKS + """
def bad(v): raise ValueError("of the callback")
for _ in range(3):
    try:
        on_host(bad, S((2,), jnp.float32))(np.ones(2, "f")).block_until_ready()
        assert False
    except jax.errors.JaxRuntimeError as error:
        assert "ValueError: of the callback" in str(error), error
assert on_host(lambda v: v + 1, S((), jnp.float32))(np.float32(1)) == 2  # nothing is left behind
""", **TPU)


def test_many_in_flight(run):
    run(CALLBACKS + """
def slow(v):
    time.sleep(0.01)
    return np.asarray(v) + 1
f = on_host(slow, S((64, 64), jnp.float32))
g = jax.jit(lambda x: f(x @ x))  # of some cost: the caller does not wait for it
ys = [g(jax.device_put(np.full((64, 64), i, "f"), jax.devices()[i % 8])) for i in range(200)]
for i, y in enumerate(ys): assert (np.asarray(y) == 64 * i * i + 1).all()
""", **EIGHT)


def test_a_callback_that_waits_for_the_main_thread(run):
    run(CALLBACKS + """
go = threading.Event()
def wait(v):
    assert go.wait(60)
    return np.asarray(v)
f = jax.jit(lambda x: on_host(wait, S((), jnp.float32))((x @ x)[0, 0]))
ys = [f(jax.device_put(np.full((64, 64), i, "f"), d)) for i, d in enumerate(jax.devices())]
go.set()
assert [float(y) for y in ys] == [64 * i * i for i in range(8)]
""", **EIGHT)


def test_a_callback_may_run_a_program_on_the_chip(run):
    run(CALLBACKS + """
inner = jax.jit(lambda x: x * 2)
f = on_host(lambda v: np.asarray(inner(jax.device_put(np.asarray(v), jax.devices()[0]))),
            S((3,), jnp.float32))
ys = [f(np.full(3, i, "f")) for i in range(100)]
for i, y in enumerate(ys): assert (np.asarray(y) == 2 * i).all()
""", **TPU)


def test_programs_of_eight_chips(run):
    run(CALLBACKS + """
mesh = jax.make_mesh((8,), ("x",))
x = jax.device_put(np.arange(16, dtype="f"), NamedSharding(mesh, P("x")))
# Partitioned by the compiler: one chip calls, with the whole array.
whole = on_host(lambda v: np.asarray(v).reshape(16) * 2, S((16,), jnp.float32))(x)
np.testing.assert_array_equal(whole, np.arange(16) * 2)
# By hand: each chip calls with its shard, between collectives.
seen = set()
def note(i, v):
    seen.add(int(i))
    return np.asarray(v) + 1
def step(x):
    i = jax.lax.axis_index("x")
    y = jax.pure_callback(note, S((2,), jnp.float32), i, x)
    return jax.lax.psum(y, "x") + jax.pure_callback(note, S((2,), jnp.float32), i + 8, y)
for _ in range(20):
    y = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=P("x"), out_specs=P("x")))(x)
assert seen == set(range(16)), seen
shards = np.arange(16, dtype="f").reshape(8, 2)
np.testing.assert_array_equal(y, ((shards + 1).sum(0) + shards + 2).reshape(16))
""", **EIGHT)


def test_ten_thousand_callbacks_leave_nothing(run):
    run(CALLBACKS + """
import resource
f = on_host(lambda v: v, S((1024,), jnp.float32))
x = jnp.ones(1024)
def rounds(n):
    for _ in range(n): y = f(x)
    y.block_until_ready()
    return int(open("/proc/self/statm").read().split()[1]) * 4096
before = rounds(1000)
after = rounds(3000)
assert after - before < 8 << 20, (before, after)
""", timeout=300, **TPU)
