"""Wrong uses of the TPU, each with the exception and the text that a user sees; the process lives on.

Two processes on one TPU: test_finding_tpus.py. Batches that replicas do not divide are none: in
keras_cases.py. A worker that fails or is not there: tests/worker/test_tensorflow_worker.py.
An array that HBM has no room for: strategy_cases.py.
"""
import re

import pytest

SETUP = """
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
tf.config.experimental_connect_to_cluster(resolver)

def see(what):
    try:
        print("gave", what())
    except Exception as error:
        print(f"raised {type(error).__name__}: {error}")

def on_each(strategy, step, *arguments):
    @tf.function(autograph=False)
    def run(*arguments):
        return strategy.run(step, args=arguments)

    return [value.numpy().tolist() for value in strategy.experimental_local_results(run(*arguments))]

def one():
    return tf.ones(())
"""
INITIALIZE = SETUP + """
tf.tpu.experimental.initialize_tpu_system(resolver)
strategy = tf.distribute.TPUStrategy(resolver)
"""
LIVES_ON = """
assert on_each(strategy, one) == [1.] * 8
print("lives on")
"""


@pytest.fixture
def said(run):
    """said(code) is what the code prints after the TPU system was initialized; it must live on."""
    def said(code, **variables):
        output = run(INITIALIZE + code + LIVES_ON, TF_CPP_MIN_LOG_LEVEL="3", **variables)
        assert "lives on" in output, output
        return output
    return said


def test_a_step_before_initialize(run):
    """TensorFlow's own words: it looks for what initialization leaves behind."""
    output = run(SETUP + """
strategy = tf.distribute.TPUStrategy(resolver)
see(lambda: on_each(strategy, one))
tf.tpu.experimental.initialize_tpu_system(resolver)
""" + LIVES_ON, TF_CPP_MIN_LOG_LEVEL="3")
    assert "raised NotFoundError" in output and "tpu_mesh_common_state" in output, output
    assert "lives on" in output, output


def test_initialize_twice(said):
    output = said("""
with strategy.scope():
    weights = tf.Variable(2.)
tf.tpu.experimental.initialize_tpu_system(resolver)
see(lambda: on_each(tf.distribute.TPUStrategy(resolver), one))
""")
    assert "has already been initialized. Reinitializing the TPU can cause previously created" in output
    assert f"gave {[1.0] * 8}" in output, output


def test_a_batch_that_replicas_do_not_divide(said):
    """By hand: XLA can split into equal parts only. (A distributed dataset gives some replicas less.)"""
    output = said("""
def step():
    replica = tf.distribute.get_replica_context()
    return tf.split(tf.ones((12, 4)), replica.num_replicas_in_sync)[0]
see(lambda: on_each(strategy, step))
split = tf.distribute.TPUStrategy(resolver, experimental_device_assignment=
    tf.tpu.experimental.DeviceAssignment.build(
        tf.tpu.experimental.initialize_tpu_system(resolver), computation_shape=[1, 1, 1, 2], num_replicas=4))
def halves():
    return tf.reduce_sum(split.experimental_split_to_logical_devices(tf.ones((3, 4)), [2, 1]))
see(lambda: on_each(split, halves))
""")
    assert "raised ValueError: Dimension size must be evenly divisible by 8 but is 12" in output, output
    assert re.search(r"raised ValueError: .*must be divisible by .*\(2\). Received: 3", output), output


@pytest.mark.parametrize("step", ["tf.zeros((n, n))", "tf.range(n)", "tf.reshape(tf.ones((9,)), (n, n))"])
def test_a_shape_that_is_no_constant(said, step):
    output = said(f"""
def step(n):
    return {step}
see(lambda: on_each(strategy, step, tf.constant(3)))
""")
    assert "raised InvalidArgumentError" in output and "TPU compilation failed" in output, output
    assert "must be a compile-time constant" in output, output


def test_a_batch_too_large_for_hbm(said, tmp_path):
    """The text names the largest tensors and their operations, how much is too much, and a batch that
    fits the chip, which it does: on a host of 2 GiB that one fails as too large for the host alone."""
    program = """
with strategy.scope():
    weights = [tf.Variable(tf.ones(shape)) for shape in ((64, 8192), (8192, 4096), (4096, 1))]
def step(x):
    with tf.GradientTape() as tape:
        y = x
        for weight in weights:
            y = tf.tanh(y @ weight)
        loss = tf.reduce_mean(y)
    for weight, gradient in zip(weights, tape.gradient(loss, weights)):
        weight.assign_sub(gradient)
    return loss
see(lambda: on_each(strategy, step, tf.ones((BATCH, 64))))
see(lambda: ("weights", weights[2].numpy().sum().item()))
"""
    slice_file = tmp_path / "slice"
    slice_file.write_text(f"ACCELERATOR_TYPE: 'v2-8'\nTORUS_MEMORY_LIMIT_BYTES: '{4 * 2**30}'\n")
    output = said(program.replace("BATCH", str(1 << 18)), TORUS_SLICE=str(slice_file))
    assert "raised ResourceExhaustedError" in output, output
    assert "Ran out of memory on HBM" in output and "exceeds available HBM (7.48G)" in output, output
    assert re.search(r"8\.00G f32\[262144,8192\].*(MatMul|Tanh)", output), output
    assert re.search(r"That is \d+\.\d+G too much. If the first dimension, 262144, is a batch", output), output
    assert "gave ('weights', 4096.0)" in output, output
    fits = int(re.search(r"one of (\d+) would fit", output)[1])
    assert 1 << 15 < fits < 1 << 18
    output = said(program.replace("BATCH", str(fits)), TORUS_SLICE=str(slice_file))
    assert "raised ResourceExhaustedError" in output and "Ran out of host memory" in output, output
    assert "which fits the chip, not this host" in output, output


def test_a_step_that_finds_no_room(said, tmp_path):
    """Compiled, it fits the chip; when it is to run, there is too little memory. What it would have
    assigned is that error until it is assigned anew; all else goes on."""
    slice_file = tmp_path / "slice"
    slice_file.write_text(f"ACCELERATOR_TYPE: 'v2-8'\nTORUS_MEMORY_LIMIT_BYTES: '{2 * 2**30}'\n")
    output = said("""
with strategy.scope():
    weight, other = tf.Variable(3.), tf.Variable(7.)
def step(x):
    product = tf.sort(tf.linalg.matmul(x, x, transpose_b=True))
    weight.assign_add(tf.distribute.get_replica_context().all_reduce("SUM", tf.reduce_sum(product)))
    return weight.read_value()
see(lambda: on_each(strategy, step, tf.ones((16384, 64))))
for variable in (weight, other):
    see(lambda: on_each(strategy, one))
    see(lambda: ("variable", variable.numpy().item()))
weight.assign(4.)
see(lambda: ("weight", weight.numpy().item()))
""", TORUS_SLICE=str(slice_file))
    assert output.count("raised ResourceExhaustedError") == output.count("raised ") == 2, output
    assert "Ran out of host memory" in output and output.count(f"gave {[1.0] * 8}") == 2, output
    assert "gave ('variable', 7.0)" in output and "gave ('weight', 4.0)" in output, output


def test_the_memory_limit_is_the_generations(run):
    output = run(SETUP + """
from tensorflow.python.client import device_lib
print({device.name: device.memory_limit for device in device_lib.list_local_devices()})
""")
    assert f"'/device:TPU_SYSTEM:0': {8031588843}" in output, output
