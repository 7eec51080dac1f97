#!/usr/bin/env python3
"""What TensorFlow's training costs on the software TPU, beside JAX on it and beside TensorFlow's own CPU.

  bench/tensorflow_steps.py [--rounds=N] [--only=CASE,...]

Two models at a global batch of 256, Adam: the tutorials' CNN on 28x28 images, and a multilayer perceptron.
TPUStrategy runs each on 1, 2 and 8 cores, with 1 and 32 steps an execution; JAX runs the same through the
same libtpu.so on one core; TensorFlow without a TPU runs it on the host's CPU, plainly and with
jit_compile. All get their batches from host memory, as training does. A step's time is what a run of thrice
as many steps takes longer, over the steps it has more: to begin an epoch costs Keras some 200 ms, on any
device. In each round every one is timed once, in random order. A figure is the median over rounds of the
ratio of speeds, with a bootstrap 95% confidence interval.

An empty step is strategy.run of an addition on one core: in the process, and through the worker of a TPU
VM (src/worker/guest/tensorflow_worker.py). The exit code is 1 where a bar is missed. TORUS_LIBTPU names the
library (default: build/release/libtpu.so); TensorFlow is build/tensorflow/2.20.0 (scripts/tensorflow.sh)
and, without a TPU, build/bench/tensorflow (scripts/bench.sh); JAX that of the Python that runs this.
"""
import argparse
import functools
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from side_by_side import Worker, describe, kept_environment, rounds_of, say_machine, serve

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIBTPU = pathlib.Path(os.environ.get("TORUS_LIBTPU", ROOT / "build/release/libtpu.so")).resolve()
TENSORFLOW = ROOT / "build/tensorflow/2.20.0/bin/python"
STOCK = ROOT / "build/bench/tensorflow/bin/python"
BATCH, STEPS = 256, {"cnn": 32, "mlp": 64}
BARS = {"1 core / JAX": 0.95, "8 cores / 1 core": 1.0}
EMPTY_BARS = {"in process": 300e-6, "through the worker": 2e-3}


def batches(count):
    import numpy as np
    random_numbers = np.random.default_rng(0)
    x = random_numbers.random((count, BATCH, 28, 28, 1), np.float32)
    return x, random_numbers.integers(0, 10, (count, BATCH)).astype("int32")


def step_of(run, steps):
    """A block to be timed: seconds a step, of what `run`(a number of steps) takes."""
    def seconds(count):
        begin = time.perf_counter()
        run(count)
        return time.perf_counter() - begin
    return lambda: (seconds(3 * steps) - seconds(steps)) / (2 * steps)


# ---- In a worker of TensorFlow's


def keras_model(name):
    import tensorflow as tf
    layers = {"cnn": [tf.keras.layers.Conv2D(32, 3, activation="relu"), tf.keras.layers.MaxPooling2D(),
                      tf.keras.layers.Flatten(), tf.keras.layers.Dense(64, activation="relu")],
              "mlp": [tf.keras.layers.Flatten(), tf.keras.layers.Dense(512, activation="relu"),
                      tf.keras.layers.Dense(512, activation="relu")]}[name]
    return tf.keras.Sequential([tf.keras.layers.Input((28, 28, 1)), *layers, tf.keras.layers.Dense(10)])


def fitting(name, strategy, steps_per_execution, **options):
    import tensorflow as tf
    with strategy.scope():
        model = keras_model(name)
        model.compile(optimizer="adam", steps_per_execution=steps_per_execution,
                      loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), **options)
    steps = STEPS[name]
    data = tf.data.Dataset.from_tensor_slices(batches(steps)).repeat().prefetch(tf.data.AUTOTUNE)
    return step_of(lambda count: model.fit(data, steps_per_epoch=count, epochs=1, verbose=0), steps)


def tpu_strategies(resolver):
    import tensorflow as tf
    tf.config.experimental_connect_to_cluster(resolver)
    topology = tf.tpu.experimental.initialize_tpu_system(resolver)

    def of(cores):
        assignment = tf.tpu.experimental.DeviceAssignment.build(topology, num_replicas=cores)
        return tf.distribute.TPUStrategy(resolver, experimental_device_assignment=assignment)
    return of


def empty_step(strategy):
    import tensorflow as tf

    @tf.function
    def step(x):
        def add(y):
            return y + 1.0
        return strategy.run(add, args=(x,))

    x = step(tf.constant(0.0))

    def block(count=200):
        value = x
        begin = time.perf_counter()
        for _ in range(count):
            value = step(value)
        float(value)
        return (time.perf_counter() - begin) / count
    return block


def work_tensorflow(door):
    import tensorflow as tf
    if door == "cpu":
        strategy = tf.distribute.get_strategy()
        return serve({f"{model} {how}": functools.partial(fitting, model, strategy, 32, jit_compile=jit)
                      for model in STEPS for how, jit in (("plain", False), ("jit", True))})
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=door)
    of = tpu_strategies(resolver)
    cases = {f"{model} {cores} {each}": functools.partial(lambda m, c, e: fitting(m, of(c), e), model, cores, each)
             for model in STEPS for cores in (1, 2, 8) for each in (1, 32)}
    return serve(cases | {"empty": lambda: empty_step(of(1))})


# ---- In JAX's worker


def jax_training(name):
    import jax
    import jax.numpy as jnp
    from jax import lax
    keys = iter(jax.random.split(jax.random.key(0), 8))
    shapes = {"cnn": [(3, 3, 1, 32), (13 * 13 * 32, 64), (64, 10)], "mlp": [(784, 512), (512, 512), (512, 10)]}[name]
    weights = [(jax.random.normal(next(keys), s) * (s[0] * (s[1] if len(s) > 2 else 1)) ** -0.5,
                jnp.zeros(s[-1])) for s in shapes]

    def logits(weights, x):
        if name == "cnn":
            (kernel, bias), *weights = weights
            x = jax.nn.relu(lax.conv_general_dilated(x, kernel, (1, 1), "VALID",
                                                     dimension_numbers=("NHWC", "HWIO", "NHWC")) + bias)
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = x.reshape(len(x), -1)
        for w, b in weights[:-1]:
            x = jax.nn.relu(x @ w + b)
        return x @ weights[-1][0] + weights[-1][1]

    def loss(weights, x, y):
        return -jnp.take_along_axis(jax.nn.log_softmax(logits(weights, x)), y[:, None], 1).mean()

    def step(weights, m, v, t, x, y):
        gradient = jax.grad(loss)(weights, x, y)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, gradient)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, gradient)
        rate = 1e-3 * jnp.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
        weights = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-7), weights, m, v)
        return weights, m, v, t + 1

    def zeros():  # donated: each its own
        return jax.tree.map(jnp.zeros_like, weights)
    state, steps = [(weights, zeros(), zeros(), jnp.ones(()))], STEPS[name]
    train = jax.jit(step, donate_argnums=(0, 1, 2, 3))
    x, y = batches(steps)

    def run(count):
        for i in range(count):
            state[0] = train(*state[0], x[i % steps], y[i % steps])
        jax.block_until_ready(state[0])
    return step_of(run, steps)


# ---- In the bench


def worker(door):
    tpu = {"TPU_LIBRARY_PATH": str(LIBTPU), "TPU_LOAD_LIBRARY": "1", "TPU_ACCELERATOR_TYPE": "v5litepod-8"}
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    command, environment = {
        "jax": (sys.executable, tpu | {"JAX_PLATFORMS": "tpu"}),
        "cpu": (STOCK, quiet),
        "local": (TENSORFLOW, quiet | tpu)}.get(door, (TENSORFLOW, quiet))
    return Worker([str(command), __file__, "--work", door], kept_environment() | environment)


class VmWorker:
    """The worker of a TPU VM, outside of one."""

    def __init__(self):
        self.log = tempfile.NamedTemporaryFile("r", prefix="torus-bench-")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            [str(TENSORFLOW), str(ROOT / "src/worker/guest/tensorflow_worker.py"), str(self.port)],
            env=kept_environment() | {"TPU_LIBRARY_PATH": str(LIBTPU), "TPU_LOAD_LIBRARY": "1",
                                      "TPU_ACCELERATOR_TYPE": "v5litepod-8", "TORUS_WORKER_LOG": self.log.name})
        while "listening" not in self.log.read():
            time.sleep(0.1)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def say(name, ours, others, order, bar=None):
    ratio, text = describe(others, ours, order)  # of speeds
    verdict = "" if bar is None else f"   bar {bar}: {'met' if ratio >= bar else 'MISSED'}"
    speed = BATCH / statistics.median(ours)
    print(f"{name:<44} {speed:>9,.0f} images/s   x {text}{verdict}", flush=True)
    return bar is None or ratio >= bar


def compare(model, times, order):
    """Prints a model's figures; whether all bars are met."""
    tpu = {(cores, each): times["local", f"{model} {cores} {each}"] for cores in (1, 2, 8) for each in (1, 32)}
    met = True
    for each in (1, 32):
        met &= say(f"{model}: 1 core, {each} an execution / JAX", tpu[1, each], times["jax", model], order,
                   BARS["1 core / JAX"] if each == 32 else None)
        say(f"{model}: 2 cores / 1 core, {each} an execution", tpu[2, each], tpu[1, each], order)
        met &= say(f"{model}: 8 cores / 1 core, {each} an execution", tpu[8, each], tpu[1, each], order,
                   BARS["8 cores / 1 core"])
    for how in ("plain", "jit"):
        say(f"{model}: 1 core, 32 an execution / CPU, {how}", tpu[1, 32], times["cpu", f"{model} {how}"], order)
    return met


def measure_training(models, rounds):
    order = random.Random(20261130)
    cases = [("local", f"{m} {c} {e}") for m in models for c in (1, 2, 8) for e in (1, 32)]
    cases += [("jax", m) for m in models] + [("cpu", f"{m} {how}") for m in models for how in ("plain", "jit")]
    workers = {door: worker(door) for door in ("local", "jax", "cpu")}
    times = rounds_of({key: functools.partial(workers[key[0]].time, key[1]) for key in cases}, rounds, order)
    for each in workers.values():
        each.end()
    return all([compare(model, times, order) for model in models])


def measure_empty(rounds):
    vm = VmWorker()
    doors = {"in process": worker("local"), "through the worker": worker(f"grpc://127.0.0.1:{vm.port}")}
    times = rounds_of({name: functools.partial(door.time, "empty") for name, door in doors.items()}, rounds,
                      random.Random(20261130))
    for each in doors.values():
        each.end()
    vm.end()
    met = True
    for name, seconds in times.items():
        took, bar = statistics.median(seconds), EMPTY_BARS[name]
        met &= took <= bar
        print(f"empty step, {name:<20} {took * 1e6:>7.0f} us   bar {bar * 1e6:.0f} us: "
              f"{'met' if took <= bar else 'MISSED'}", flush=True)
    return met


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--only", help="cases, with commas between them: cnn, mlp, empty")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work == "jax":
        return serve({model: functools.partial(jax_training, model) for model in STEPS})
    if args.work:
        return work_tensorflow(args.work)
    only = args.only.split(",") if args.only else [*STEPS, "empty"]
    if unknown := set(only) - {*STEPS, "empty"}:
        sys.exit(f"error: no case {', '.join(sorted(unknown))}; there are: {', '.join(STEPS)}, empty")
    if not (TENSORFLOW.exists() and STOCK.exists()):
        sys.exit("error: no TensorFlow in build/tensorflow/2.20.0 or build/bench/tensorflow: scripts/tensorflow.sh "
                 "installs the one, scripts/bench.sh the other")
    say_machine()
    models = [model for model in STEPS if model in only]
    met = measure_training(models, args.rounds) if models else True
    if "empty" in only:
        met &= measure_empty(args.rounds)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
