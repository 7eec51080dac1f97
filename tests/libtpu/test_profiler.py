"""jax.profiler sees the software TPU: a plane a device, with the times of programs and operations."""

HELPERS = """
import glob, re, tempfile, threading, time
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.profiler import ProfileData
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

class Traced:
    '''What a trace of `work` has: planes by name, each a list of (name, begin, end) by line.'''
    def __init__(self, work):
        folder = tempfile.mkdtemp()
        begin = time.perf_counter()
        with jax.profiler.trace(folder):
            work()
        self.wall_ns = (time.perf_counter() - begin) * 1e9
        [path] = glob.glob(folder + "/**/*.xplane.pb", recursive=True)
        self.bytes = open(path, "rb").read()
        self.planes = {}
        for plane in ProfileData.from_file(path).planes:
            lines = {line.name: [(e.name, e.start_ns, e.end_ns) for e in line.events] for line in plane.lines}
            self.planes[plane.name] = lines
            self.planes[plane.name, "stats"] = dict(plane.stats)
        self.devices = sorted(n for n in self.planes if str(n).startswith("/device:TPU:"))

    def line(self, name, device=0):
        return self.planes[f"/device:TPU:{device}"][name]

    def runs(self, program, device=0):
        return [e for e in self.line("XLA Modules", device) if e[0].startswith(program + "(")]
"""


def test_a_training_step_over_eight_chips(run):
    run(HELPERS + """
mesh = Mesh(np.array(jax.devices()), ("data",))
kernel = jax.device_put(jnp.ones((3, 3, 1, 8)) / 9, NamedSharding(mesh, P()))
dense = jax.device_put(jnp.ones((14 * 14 * 8, 10)) / 100, NamedSharding(mesh, P()))
x = jax.device_put(jnp.ones((32, 28, 28, 1)), NamedSharding(mesh, P("data")))

def loss(weights, x):
    y = lax.conv_general_dilated(x, weights[0], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    y = lax.reduce_window(jax.nn.relu(y), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return jnp.mean(jax.nn.log_softmax(y.reshape(len(y), -1) @ weights[1])[:, 0])

@jax.jit
def train_step(weights, x):
    value, gradient = jax.value_and_grad(loss)(weights, x)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradient), value

weights = (kernel, dense)
expected = train_step(train_step(train_step(weights, x)[0], x)[0], x)

def work():
    global result
    state = weights
    for step in range(3):
        result = train_step(state, x)
        state = result[0]
        jax.block_until_ready(result)
traced = Traced(work)
assert jax.tree.all(jax.tree.map(np.array_equal, result, expected))  # the same operations ran

assert traced.devices == [f"/device:TPU:{i}" for i in range(8)], traced.planes.keys()
for device in range(8):
    runs, operations = traced.runs("jit_train_step", device), traced.line("XLA Ops", device)
    assert len(runs) == 3 and len(traced.line("Steps", device)) == 3, runs
    assert any("convolution(" in name for name, _, _ in operations), operations
    assert sum("all-reduce(" in name for name, _, _ in operations) >= 3
    assert len({name for name, _, _ in operations}) * 3 == len(operations)
    for (_, _, end), (_, begin, _) in zip(operations, operations[1:]):
        assert end <= begin  # one after the other
    for _, begin, end in operations:
        assert any(b <= begin <= end <= e for _, b, e in runs)
    in_programs = sum(end - begin for _, begin, end in runs)
    in_operations = sum(end - begin for _, begin, end in operations)
    assert 0.5 * in_programs < in_operations <= in_programs + 1 < traced.wall_ns, (in_operations, in_programs)
stats = traced.planes["/device:TPU:0", "stats"]
assert stats["device_type_string"] == "TPU v5 lite" and stats["peak_teraflops_per_second"] == 197, stats
assert stats["peak_hbm_bw_gigabytes_per_second"] == 819
for name in (b"hlo_category", b"hlo_op", b"program_id", b"flops", b"bytes_accessed", b"tf_op", b"Hlo Proto"):
    assert name in traced.bytes, name
assert b"jit(train_step)" in traced.bytes and b"/host:metadata" in traced.bytes
assert b"torus.mark" not in traced.bytes
assert "/host:CPU" in traced.planes  # JAX's own
""", TPU_ACCELERATOR_TYPE="v5litepod-8")


def test_loops_branches_and_callbacks_give_the_same(run):
    run(HELPERS + """
x = jax.random.normal(jax.random.key(0), (64, 64))
programs = [jax.jit(f) for f in (
    lambda x: lax.scan(lambda c, i: (jnp.tanh(c @ x) + i, c.sum()), x, jnp.arange(5.)),
    lambda x: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, jnp.sort(s[1] @ x)), (0, x)),
    lambda x: lax.cond(x[0, 0] > 0, lambda y: y @ y, lambda y: jnp.cumsum(y, 0), x),
    lambda x: jnp.linalg.solve(x, x + 1), lambda x: lax.top_k(x, 3), lambda x: x[:0].sum(),
    lambda x: jax.pure_callback(lambda y: np.sin(y), jax.ShapeDtypeStruct(x.shape, x.dtype), x) * 2,
    lambda x: jnp.arange(8.) * 2, jax.grad(lambda x: jnp.sum(jax.nn.softmax(x @ x) ** 2)))]
expected = [jax.tree.map(np.asarray, f(x)) for f in programs]
update = jax.jit(lambda a, b: a + b, donate_argnums=0)
def work():
    for f, want in zip(programs, expected):
        assert jax.tree.all(jax.tree.map(np.array_equal, jax.tree.map(np.asarray, f(x)), want))
    given = x + 0
    assert np.array_equal(update(given, x), x + x) and given.is_deleted()
traced = Traced(work)
operations = traced.line("XLA Ops")
loops = [e for e in operations if " while(" in e[0]]
assert any(b > begin and e < end for _, b, e in operations for _, begin, end in loops), operations  # bodies inside
assert len(traced.runs("jit__lambda")) == len(programs) + 1
""", JAX_PLATFORMS="tpu,cpu", TPU_ACCELERATOR_TYPE="v5litepod-1")


def test_sessions_follow_each_other_and_nothing_is_recorded_between(run):
    run(HELPERS + """
f = jax.jit(lambda x: jnp.tanh(x @ x))
x = jnp.ones((256, 256))
f(x).block_until_ready()
for session in range(2):
    traced = Traced(lambda: [f(x).block_until_ready() for _ in range(2 + session)])
    assert len(traced.runs("jit__lambda")) == 2 + session, traced.planes
    f(x).block_until_ready()
idle = Traced(lambda: None)
assert idle.devices == [], idle.planes
""", TPU_ACCELERATOR_TYPE="v5litepod-1")


def test_while_other_threads_run(run):
    run(HELPERS + """
x = jnp.ones((128, 128))
functions = [jax.jit(lambda x, i=i: jnp.tanh(x @ x) + i) for i in range(4)]
want = [np.asarray(f(x)) for f in functions]
stop = threading.Event()
wrong = []
runs = [0] * len(functions)
def loop(i):
    while not stop.is_set():
        if not np.array_equal(functions[i](x), want[i]):
            wrong.append(i)
        runs[i] += 1
def until_each_ran_again():
    before = list(runs)
    while any(now < then + 3 for now, then in zip(runs, before)):
        time.sleep(0.01)
threads = [threading.Thread(target=loop, args=(i,), daemon=True) for i in range(len(functions))]
for thread in threads: thread.start()
for session in range(3):
    traced = Traced(until_each_ran_again)
    assert len(traced.line("XLA Modules")) >= len(functions)
    for _, begin, end in traced.line("XLA Ops"):
        assert 0 <= begin <= end <= traced.wall_ns
stop.set()
for thread in threads: thread.join()
assert not wrong
""", TPU_ACCELERATOR_TYPE="v5litepod-1")


def test_a_program_that_came_serialized_has_whole_runs(run, tmp_path):
    code = HELPERS + """
f = jax.jit(lambda x: jnp.tanh(x @ x))
x = jnp.ones((256, 256))
f(x).block_until_ready()
traced = Traced(lambda: [f(x).block_until_ready() for _ in range(3)])
runs = traced.runs("jit__lambda")
assert len(runs) == 3 and all(begin < end for _, begin, end in runs)
print(len(traced.line("XLA Ops")), "dropped_traces" in traced.planes["/device:TPU:0", "stats"])
"""
    settings = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path), "TPU_ACCELERATOR_TYPE": "v5litepod-1",
                "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0"}
    assert run(code, **settings).split()[1] == "False"
    assert run(code, **settings).split() == ["0", "True"]
