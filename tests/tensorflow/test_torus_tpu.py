"""torus_tpu and `torus run` with the real TensorFlow: a script's TPU is found, or it is said why not."""
import os
import pathlib
import re
import subprocess
import textwrap

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TORUS = os.environ.get("TORUS", str(ROOT / "build/release/torus"))
STARTUP = str(pathlib.Path(TORUS).with_name("python") / "startup")

# What a script looks like whose author never heard of tf.distribute.
FORGOT = """
import numpy as np
import tensorflow as tf
x = np.random.default_rng(0).normal(size=(512, 8)).astype("float32")
y = (x.sum(axis=1) > 0).astype("int32")
model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(16, "relu"), tf.keras.layers.Dense(2)])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(x, y, batch_size=64, epochs=2, verbose=0)
print("loss", model.evaluate(x, y, batch_size=64, verbose=0)[0] < 1.0, "shape", model.predict(x, verbose=0).shape)
print("replicas", tf.distribute.get_strategy().num_replicas_in_sync)
"""


@pytest.fixture
def torus_run(python, environment, tmp_path):
    """torus_run(flags, code, ...) runs a script by `torus run`; it may fail. Its output, of both streams."""

    def run(flags, code, rc=0, **variables):
        (tmp_path / "train.py").write_text(textwrap.dedent(code))
        variables = {k: v for k, v in (environment | variables).items() if v is not None}
        done = subprocess.run([TORUS, "run", *flags, python, "train.py"], env=variables, cwd=tmp_path,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
        assert done.returncode == rc, done.stdout
        return done.stdout

    return run


def test_a_script_that_forgot_the_strategy_trains_on_the_tpu(torus_run):
    output = torus_run(["--auto-tpu", "--accelerator-type=v2-8"], FORGOT, TPU_LIBRARY_PATH=None)
    assert "torus_tpu: TPUStrategy of 8 replicas on this process's own TPU; float32, since a software TPU" in output
    assert "loss True shape (512, 2)" in output and "replicas 8" in output, output


def test_a_tpu_vm_of_its_variable_does_the_same(run):
    """No flag: the folder is on Python's path there."""
    output = run(FORGOT, TORUS_AUTO_TPU="1", PYTHONPATH=STARTUP)
    assert "TPUStrategy of 8 replicas" in output and "replicas 8" in output, output


def test_a_script_with_a_strategy_of_its_own_is_left_alone(torus_run):
    output = torus_run(["--auto-tpu"], """
        import tensorflow as tf
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        strategy = tf.distribute.TPUStrategy(resolver)
        with strategy.scope():
            model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(2)])
            model.compile("sgd", "mse")
        model.fit(tf.ones((64, 8)), tf.ones((64, 2)), batch_size=64, verbose=0)
        mirrored = tf.distribute.MirroredStrategy(["CPU:0"])
        print("own", strategy.num_replicas_in_sync, mirrored.num_replicas_in_sync,
              tf.distribute.has_strategy())
    """)
    assert "own 8 1 False" in output and "torus_tpu" not in output, output


def test_a_training_loop_of_its_own_is_told_what_to_write(torus_run):
    output = torus_run(["--auto-tpu"], """
        import tensorflow as tf
        model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(2)])
        optimizer = tf.keras.optimizers.SGD()
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(tf.ones((64, 8))))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    """, rc=1)
    assert re.search(r"RuntimeError: TORUS_AUTO_TPU: this program applies gradients in a loop of its own.*"
                     r"strategy = torus_tpu\.auto_strategy\(\)", output), output


NOWHERE = {"TPU_NAME": "grpc://127.0.0.1:9"}  # nobody listens at port 9


def test_without_a_tpu_it_runs_and_says_so(torus_run):
    output = torus_run(["--auto-tpu"], FORGOT.replace("metrics=", "jit_compile=False, metrics="), **NOWHERE)
    assert re.search(r"torus_tpu: no TPU, so this runs without one: nobody answers at 127\.0\.0\.1:9 \(.*"
                     r"compile Keras models with jit_compile=False", output), output
    assert "replicas 1" in output, output


def test_a_required_tpu_that_is_not_there_ends_the_script(torus_run):
    """A job's scheduler sees that it failed: exit status 1, and nothing was trained."""
    output = torus_run(["--require-tpu"], FORGOT, **NOWHERE, rc=1)
    assert "torus_tpu.NoTpu: nobody answers at 127.0.0.1:9" in output and "loss" not in output, output


def test_auto_strategy(torus_run):
    output = torus_run([], """
        import tensorflow as tf, torus_tpu
        strategy = torus_tpu.auto_strategy(bfloat16=True)
        assert torus_tpu.reason() is None
        with strategy.scope():
            kept = tf.Variable(3.0)
            layer = tf.keras.layers.Dense(2)
        assert torus_tpu.auto_strategy() is strategy
        print("sum", strategy.reduce("SUM", strategy.run(tf.function(lambda: kept + 1.0)), axis=None).numpy())
        print("output", layer(tf.ones((1, 4))).dtype, "variables", layer.kernel.dtype)
        try:
            torus_tpu.auto_strategy("grpc://127.0.0.1:9", required=True)
        except torus_tpu.NoTpu as error:
            print("refused", error)
        other = torus_tpu.auto_strategy("grpc://127.0.0.1:9")
        print(type(other).__name__, other.num_replicas_in_sync, torus_tpu.reason())
    """)
    assert "sum 32.0" in output, output  # the second call did not empty the TPU's memory
    assert "mixed_bfloat16: layers compute in bfloat16, variables stay float32" in output, output
    assert re.search(r"output .*bfloat16.* variables .*float32", output), output
    assert "refused nobody answers at 127.0.0.1:9" in output, output
    assert "_DefaultDistributionStrategy 1 nobody answers at 127.0.0.1:9" in output, output


def test_chips_that_another_process_has(torus_run, node, python, environment):
    holder = subprocess.Popen(
        [python, "-c", "import torus_tpu; torus_tpu.auto_strategy(required=True); print('has', flush=True); input()"], env=environment | {"TORUS_SLICE": node, "PYTHONPATH": STARTUP}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "has\n"
        output = torus_run([], """
            import torus_tpu
            torus_tpu.auto_strategy()
            print("reason", torus_tpu.reason())
        """, TORUS_SLICE=node)
    finally:
        holder.communicate("\n", timeout=60)
    assert re.search(rf"reason this process's own TPU does not serve: \w+: The TPU is already in use by process with pid {holder.pid}", output), output


def test_a_sitecustomize_of_the_users_runs_too(torus_run, tmp_path):
    """`torus run` puts one on the path, which hides another."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/sitecustomize.py").write_text("import builtins; builtins.mine = 'kept'\n")
    output = torus_run([], "import torus_tpu; print(mine, torus_tpu.__version__)", PYTHONPATH=str(tmp_path / "mine"))
    assert re.search(r"kept \d+\.\d+", output), output
