#!/usr/bin/env python3
"""What libtpu.so adds to JAX programs: beside the bare engine, and beside JAX's native CPU backend.

  bench/jax_steps.py [--rounds=N] [--only=CASE,...]

Three processes run the same code: on libtpu.so, on the engine as a plugin of its own, and on native
CPU, with eight devices each. In each round every one of them times a block of each case, in random
order, so that what else the machine does hits all alike. A figure is the median over rounds of the
ratio of times, with a bootstrap 95% confidence interval; the bars are of the ratio to the bare
engine, and the exit code is 1 where one is missed. Native CPU is another version of XLA: its ratio
is stated, as is what a dispatch costs from Python.

The start-up of 8, 256 and 4,096 chips is that of a fresh process, until jax.devices() answers.
TORUS_LIBTPU names the library (default: build/release/libtpu.so); run it with a Python that has
tests/requirements.txt.
"""
import argparse
import functools
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

from side_by_side import Worker, describe, kept_environment, rounds_of, say_machine, serve

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIBTPU = pathlib.Path(os.environ.get("TORUS_LIBTPU", ROOT / "build/release/libtpu.so")).resolve()
DOORS = {"libtpu.so": "tpu", "bare engine": "engine", "native CPU": "cpu"}
STEP_BAR, TRANSFER_BAR = 1.02, 1 / 0.95
DEVICES = 8
MEBIBYTES = 64
STARTS = {8: "v5litepod-8", 256: "v5litepod-256", 4096: "v4-8192"}  # chips, and a slice of them


# ---- In a worker: each case is made once and gives a function that times one block, in seconds.


def make_cases():
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    sys.path.insert(0, str(ROOT / "examples"))
    import mnist_jax

    def timed(repeat, run):
        """Times `repeat` calls; run() returns what to wait for at the end."""
        def block():
            begin = time.perf_counter()
            for _ in range(repeat):
                last = run()
            jax.block_until_ready(last)
            return (time.perf_counter() - begin) / repeat
        return block

    def stepping(step, state, data, repeat):
        def run():
            state[0] = step(state[0], data)
            return jax.block_until_ready(state[0])  # steps that pile up are another case
        return timed(repeat, run)

    def cnn(sharded):
        params = mnist_jax.init_params(jax.random.key(0))
        state = (params, mnist_jax.adam_init(params))
        data = (np.random.default_rng(0).random((256, 28, 28, 1), np.float32),
                np.arange(256, dtype=np.int32) % 10)
        if sharded:
            mesh = Mesh(np.array(jax.devices()), ("batch",))
            state = jax.device_put(state, NamedSharding(mesh, PartitionSpec()))
            data = jax.device_put(data, NamedSharding(mesh, PartitionSpec("batch")))
        else:
            data = jax.device_put(data)
        step = jax.jit(lambda state, data: mnist_jax.train_step(*state, *data)[:2])
        return stepping(step, [state], data, 2)

    def transformer():
        width, heads, length, batch, layers = 256, 8, 128, 4, 2
        keys = iter(jax.random.split(jax.random.key(0), 4 * layers))
        weights = [{name: jax.random.normal(next(keys), shape) * shape[0] ** -0.5
                    for name, shape in {"qkv": (width, 3 * width), "out": (width, width),
                                        "up": (width, 4 * width), "down": (4 * width, width)}.items()}
                   for _ in range(layers)]

        def norm(x):
            return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

        def loss(weights, x):
            y = x
            for w in weights:
                q, k, v = jnp.split((norm(y) @ w["qkv"]).reshape(batch, length, heads, -1), 3, -1)
                scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (width / heads) ** 0.5
                mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
                y = y + mixed.reshape(batch, length, width) @ w["out"]
                y = y + jax.nn.gelu(norm(y) @ w["up"]) @ w["down"]
            return ((y - x) ** 2).mean()

        def step(weights, x):
            return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, jax.grad(loss)(weights, x))

        x = jax.random.normal(jax.random.key(1), (batch, length, width))
        return stepping(jax.jit(step), [weights], x, 2)

    def dispatch():
        double, x = jax.jit(lambda x: x + x), jnp.arange(4.0)
        return timed(1000, lambda: double(x))

    def in_flight():
        power = jax.jit(lambda x: functools.reduce(jnp.matmul, [x] * 4))
        inputs = [jnp.eye(256) * i for i in range(8)]
        return timed(2, lambda: jax.block_until_ready([power(x) for x in inputs]))

    def to_device():
        array = np.random.default_rng(0).random(MEBIBYTES * 2**18, np.float32)
        return timed(1, lambda: jax.device_put(array, may_alias=False))

    def to_host():
        array = jax.device_put(np.random.default_rng(0).random(MEBIBYTES * 2**18, np.float32))
        again = jax.jit(lambda x: x + 1)

        def block():
            fresh = jax.block_until_ready(again(array))  # JAX keeps what it once brought
            begin = time.perf_counter()
            np.array(fresh, copy=True)
            return time.perf_counter() - begin
        return block

    return {"dispatch": dispatch, "cnn step": lambda: cnn(False), "transformer step": transformer,
            "8-chip step": lambda: cnn(True), "8 in flight": in_flight,
            "64 MiB to device": to_device, "64 MiB to host": to_host}


BARS = {"dispatch": None, "cnn step": STEP_BAR, "transformer step": STEP_BAR, "8-chip step": STEP_BAR,
        "8 in flight": None, "64 MiB to device": TRANSFER_BAR, "64 MiB to host": TRANSFER_BAR}


def register_engine():
    from jax._src import xla_bridge
    xla_bridge.register_plugin("engine", library_path=str(LIBTPU.parent / "engine/xla_cpu.so"),
                               options={"cpu_device_count": DEVICES})


def work(platform_name):
    import jax
    if platform_name == "engine":
        register_engine()
    assert len(jax.devices()) == DEVICES, jax.devices()
    serve(make_cases())


# ---- In the bench


def environment(platform_name, accelerator_type=STARTS[8]):
    own = {"tpu": {"TPU_LIBRARY_PATH": str(LIBTPU), "TPU_ACCELERATOR_TYPE": accelerator_type},
           "engine": {}, "cpu": {"JAX_NUM_CPU_DEVICES": str(DEVICES)}}[platform_name]
    return kept_environment() | {"JAX_PLATFORMS": platform_name, "TORUS_LIBTPU": str(LIBTPU)} | own


def measure(cases, rounds):
    order = random.Random(20261130)
    workers = {door: Worker([sys.executable, __file__, "--work", name], environment(name))
               for door, name in DOORS.items()}
    timers = {(case, door): functools.partial(workers[door].time, case) for case in cases for door in DOORS}
    times = rounds_of(timers, rounds, order)
    for worker in workers.values():
        worker.end()
    missed = []
    for case in cases:
        of = {door: times[case, door] for door in DOORS}
        ratio, bare = describe(of["libtpu.so"], of["bare engine"], order)
        native = describe(of["libtpu.so"], of["native CPU"], order)[1]
        bar = BARS[case]
        verdict = "" if bar is None else f"   bar {bar:.3f}: {'met' if ratio <= bar else 'MISSED'}"
        if bar is not None and ratio > bar:
            missed.append(case)
        micro = statistics.median(of["libtpu.so"]) * 1e6
        print(f"{case:<18} {micro:>10.1f} us   / bare engine {bare}   / native CPU {native}{verdict}",
              flush=True)
    return missed


def measure_starts(rounds):
    code = "import jax, time; b = time.perf_counter(); n = len(jax.devices()); print(time.perf_counter() - b, n)"
    for count, accelerator_type in STARTS.items():
        seconds = []
        for _ in range(rounds):
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                                  check=True, env=environment("tpu", accelerator_type))
            took, devices = done.stdout.split()
            assert int(devices) == count, (accelerator_type, devices)
            seconds.append(float(took))
        print(f"start-up of {count:>5} chips: {statistics.median(seconds) * 1000:.0f} ms "
              f"({min(seconds) * 1000:.0f} to {max(seconds) * 1000:.0f}, n {rounds})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--only", help="cases, with commas between them; start-up is one")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(args.work)
    only = args.only.split(",") if args.only else [*BARS, "start-up"]
    if unknown := set(only) - {*BARS, "start-up"}:
        sys.exit(f"error: no case {', '.join(sorted(unknown))}; there are: {', '.join(BARS)}, start-up")
    say_machine()
    missed = measure([case for case in BARS if case in only], args.rounds) if set(only) & set(BARS) else []
    if "start-up" in only:
        measure_starts(max(3, args.rounds // 8))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
