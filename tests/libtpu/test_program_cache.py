"""Compiled programs are kept on disk: a second process does not compile again, and nobody can tell.

What becomes of the files themselves is in src/tpu/device/program_cache_test.cc.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import pytest

# Prints, for each of some programs: how long it took to compile, and all that can be told of it.
PROGRAMS = textwrap.dedent("""
    import hashlib, json, time
    import jax, jax.numpy as jnp, numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("x",))
    split = NamedSharding(mesh, P("x"))
    rng = np.random.default_rng(0)
    def array(*shape): return jnp.asarray(rng.normal(size=shape), jnp.float32)

    def cnn(params, images, labels):
        def loss(p):
            h = jax.nn.relu(jax.lax.conv_general_dilated(
                images, p["c"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
            logits = h.mean((1, 2)) @ p["w"]
            return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()
        value, grads = jax.value_and_grad(loss)(params)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    def deep(x, weights):
        for i in range(60):
            x = jnp.tanh(x @ weights[i] + i)
        return x

    cases = {
        "cnn": (jax.jit(cnn, donate_argnums=0),
                lambda: ({"c": array(3, 3, 3, 16), "w": array(16, 10)}, array(8, 16, 16, 3),
                         jnp.arange(8) % 10)),
        "deep": (jax.jit(deep), lambda: (array(8, 32), array(60, 32, 32))),
        "solve": (jax.jit(jnp.linalg.solve), lambda: (array(16, 16), array(16))),
        "spmd": (jax.jit(lambda x: (x @ x.T).sum(0), in_shardings=split),
                 lambda: (jax.device_put(array(64, 64), split),)),
        "random": (jax.jit(lambda key: jax.random.normal(key, (1000,))), lambda: (jax.random.key(0),)),
        "host": (jax.jit(lambda x: jax.device_put(x * 2, jax.memory.Space.Host)),
                 lambda: (array(256, 256),)),
    }
    told = {}
    for name, (function, arguments) in cases.items():
        arguments = arguments()
        lowered = function.lower(*arguments)
        began = time.perf_counter()
        compiled = lowered.compile()
        took = time.perf_counter() - began
        executable = compiled.runtime_executable()
        results = compiled(*arguments)
        again = jax.tree.map(lambda a: a.is_deleted(), arguments)
        told[name] = {
            "seconds": took,
            "text": compiled.as_text(),
            "cost": sorted(compiled.cost_analysis().items()),
            "memory": str(compiled.memory_analysis()),
            "fingerprint": executable.fingerprint.decode(),
            "shardings": str((compiled.input_shardings, compiled.output_shardings)),
            "formats": str((compiled.input_formats, compiled.output_formats)),
            "kinds": str(jax.tree.map(lambda a: a.sharding.memory_kind, results)),
            "donated": str(again),
            "results": [hashlib.sha256(np.asarray(a).tobytes()).hexdigest()
                        for a in jax.tree.leaves(results)],
            "in use": jax.devices()[0].memory_stats()["bytes_in_use"],
        }
    print(json.dumps(told))
    """)

LARGE = "import jax, jax.numpy as jnp; jax.jit(lambda a: (a + 1)).lower(" \
    "jax.ShapeDtypeStruct((40 << 30,), jnp.int8)).compile()"


CALLBACKS = """
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import io_callback
from jax.sharding import Mesh, PartitionSpec as P

shape = jax.ShapeDtypeStruct((4,), jnp.float32)
def step(x):
    jax.debug.print("sum {}", x.sum())
    y = jax.pure_callback(lambda v: np.asarray(v) * 2, shape, jnp.sin(x))
    return y + io_callback(lambda v: np.asarray(v) + 1, shape, y, ordered=True)
print(jax.jit(step)(jnp.arange(4.0)))

mesh = Mesh(np.array(jax.devices()), ("x",))
double = jax.shard_map(lambda x: jax.pure_callback(lambda v: np.asarray(v) * 2,
                                                   jax.ShapeDtypeStruct((2,), jnp.float32), x),
                       mesh=mesh, in_specs=P("x"), out_specs=P("x"))
print(jax.jit(double)(jnp.arange(16.0)))
jax.effects_barrier()
"""


@pytest.fixture
def cache(tmp_path):
    return {"TORUS_PROGRAM_CACHE": str(tmp_path / "programs"), "TPU_ACCELERATOR_TYPE": "v2-8"}


def files(cache):
    return {f.name: f.stat().st_mtime_ns
            for f in pathlib.Path(cache["TORUS_PROGRAM_CACHE"]).glob("*")}


def told_by(run, cache):
    told = json.loads(run(PROGRAMS, timeout=600, **cache))
    return told, {name: program.pop("seconds") for name, program in told.items()}


def test_a_second_process_does_not_compile_and_cannot_tell(run, cache):
    first, compiling = told_by(run, cache)
    written = files(cache)
    second, loading = told_by(run, cache)
    assert second == first
    assert files(cache).keys() == written.keys(), "something was compiled again"
    assert compiling["deep"] / loading["deep"] >= 3, (compiling, loading)
    assert compiling["cnn"] / loading["cnn"] >= 3, (compiling, loading)
    # Without the cache it is the same, too.
    assert told_by(run, cache | {"TORUS_PROGRAM_CACHE": "off"})[0] == first


def test_callbacks_of_a_loaded_program_run(run, cache):
    both = cache | {"JAX_PLATFORMS": "tpu,cpu"}
    printed = sorted(run(CALLBACKS, **both).splitlines())
    written = files(cache)
    assert "sum 6.0" in printed and written
    assert sorted(run(CALLBACKS, **both).splitlines()) == printed
    assert files(cache).keys() == written.keys()


def test_what_no_chip_can_hold_is_refused_each_time(run, cache):
    for _ in range(2):
        assert "E1000: CompileTimeHbmOom" in run(LARGE, fails=True, **cache)


def test_damaged_files_are_compiled_again(run, cache):
    first, _ = told_by(run, cache)
    damaged = sorted(pathlib.Path(cache["TORUS_PROGRAM_CACHE"]).glob("*.program"))
    for i, file in enumerate(damaged):
        content = bytearray(file.read_bytes())
        if i % 3 == 0:
            content = content[:len(content) // 2]
        elif i % 3 == 1:
            content[-20] ^= 1
        else:
            content = bytearray()
        file.write_bytes(content)
    second, _ = told_by(run, cache)
    assert second == first
    assert all(file.stat().st_size > 0 for file in damaged)


def test_killed_processes_and_two_at_once_do_no_harm(run, environment, cache):
    def start():
        return subprocess.Popen([sys.executable, "-c", PROGRAMS], env=environment | cache,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    for seconds in (2, 4):  # while it compiles and writes
        process = start()
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    processes = [start(), start()]
    outputs = [process.communicate(timeout=600) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    told = [json.loads(out) for out, _ in outputs]
    for programs in told:
        for program in programs.values():
            del program["seconds"]
    assert told[0] == told[1]
    assert told_by(run, cache)[0] == told[0]


def test_a_full_disk_is_not_noticed(run, environment, cache, tmp_path):
    library = tmp_path / "bad_host.so"
    source = pathlib.Path(__file__).resolve().parents[1] / "faults/bad_host.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    control = tmp_path / "control"
    control.write_text(f"write 28 {cache['TORUS_PROGRAM_CACHE']}\n")
    done = subprocess.run([sys.executable, "-c", PROGRAMS], capture_output=True, text=True,
                          env=environment | cache | {"LD_PRELOAD": str(library),
                                                     "TORUS_BAD_HOST": str(control)})
    assert done.returncode == 0, done.stderr
    assert "libtpu.so" not in done.stderr
    assert files(cache) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can make a folder of another user")
def test_a_folder_that_cannot_be_used_is_said_once(run, environment, cache):
    folder = pathlib.Path(cache["TORUS_PROGRAM_CACHE"])
    folder.mkdir(mode=0o700)
    os.chown(folder, 4321, 4321)
    done = subprocess.run([sys.executable, "-c", "import jax; print(jax.numpy.ones(3).sum())"],
                          env=environment | cache, capture_output=True, text=True)
    assert done.stdout == "3.0\n"
    assert done.stderr.count("libtpu.so keeps no compiled programs") == 1, done.stderr
    assert list(folder.iterdir()) == []


def test_the_default_is_a_folder_of_the_users(run, tmp_path):
    code = "import jax; print(jax.numpy.arange(7.0).sum())"
    run(code, TORUS_PROGRAM_CACHE="", XDG_CACHE_HOME=str(tmp_path / "caches"))
    folder = tmp_path / "caches/torus/programs"
    assert list(folder.glob("*.program"))
    assert folder.stat().st_mode & 0o777 == 0o700
    run(code, TORUS_PROGRAM_CACHE="", XDG_CACHE_HOME="", HOME=str(tmp_path))
    assert list((tmp_path / ".cache/torus/programs").glob("*.program"))


# Some programs, each of a few KiB on disk.
MANY = """
import jax, jax.numpy as jnp
for n in range({}, {}):
    jax.jit(lambda x: x * n + n).lower(jax.ShapeDtypeStruct((n,), jnp.float32)).compile()
"""


def test_it_stays_below_the_size_that_is_set(run, cache):
    """What is let go is what was used longest ago: the last programs are there, the first are not."""
    run(MANY.format(2, 12), **cache)
    folder = pathlib.Path(cache["TORUS_PROGRAM_CACHE"])
    def size(): return sum(f.stat().st_size for f in folder.glob("*.program"))
    limit, first = 2 * size(), set(files(cache))
    run(MANY.format(20, 70), TORUS_PROGRAM_CACHE_MAX_SIZE=str(limit), **cache)
    assert limit / 2 <= size() <= limit * 33 / 32, (size(), limit)  # it looks at every 32nd of the limit
    assert not first & set(files(cache))
    written = files(cache).keys()
    run(MANY.format(68, 70), TORUS_PROGRAM_CACHE_MAX_SIZE=str(limit), **cache)
    assert files(cache).keys() == written, "what was used last was compiled again"


def test_a_size_of_nothing_turns_it_off(run, cache):
    run(MANY.format(2, 4), TORUS_PROGRAM_CACHE_MAX_SIZE="0", **cache)
    assert files(cache) == {}


def test_a_size_that_cannot_be_read_is_said(environment, cache):
    done = subprocess.run([sys.executable, "-c", MANY.format(2, 4)], capture_output=True, text=True,
                          env=environment | cache | {"TORUS_PROGRAM_CACHE_MAX_SIZE": "lots"})
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("TORUS_PROGRAM_CACHE_MAX_SIZE is lots, which is no size") == 1, done.stderr
    assert files(cache)


SERIALIZED = """
import jax, jax.numpy as jnp
from jax.experimental import serialize_executable
x = jnp.arange(8.0)
compiled = jax.jit(lambda x: jnp.sin(x) @ x + 1).lower(x).compile()
for _ in range(3):  # what was loaded serializes again
    compiled = serialize_executable.deserialize_and_load(
        *serialize_executable.serialize(compiled), execution_devices=jax.devices()[:1])
print(compiled(x))
"""
JAX_CACHED = """
import jax, jax.numpy as jnp
jax.config.update("jax_compilation_cache_dir", {!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
for _ in range(2):
    print(jax.jit(lambda x: jnp.sin(x) @ x + 1)(jnp.arange(8.0)))
    jax.clear_caches()
"""


def test_a_loaded_program_serializes(run, cache, tmp_path):
    """So JAX's own cache may be filled from this one, and a program that came out of either is whole."""
    assert len({run(SERIALIZED, **cache) for _ in range(2)}) == 1
    for name in ("one", "two"):  # the second is filled with what was loaded
        own = JAX_CACHED.format(str(tmp_path / name))
        assert len({line for _ in range(2) for line in run(own, **cache).splitlines()}) == 1
        assert list((tmp_path / name).glob("jit*"))
