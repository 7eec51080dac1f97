"""How TensorFlow finds the TPU, and what it is told where there is none to have."""
import shutil
import subprocess

import pytest

INITIALIZE = """
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
tf.config.experimental_connect_to_cluster(resolver)
"""
# What a program sees: the exception, and that the process goes on.
TRY = INITIALIZE + """
try:
    tf.tpu.experimental.initialize_tpu_system(resolver)
    print("initialized")
except Exception as error:
    print(type(error).__name__, error)
assert (tf.ones((2, 2)) @ tf.ones((2, 2))).numpy().sum() == 8
print("lives on")
"""


@pytest.fixture
def holder(python, environment, node):
    """A process that has the TPU of the node until the test ends."""
    process = subprocess.Popen(
        [python, "-c", INITIALIZE + "tf.tpu.experimental.initialize_tpu_system(resolver)\n"
         "print('ready', flush=True)\ninput()"],
        env=environment | {"TORUS_SLICE": node}, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline().strip() == "ready"
    yield process
    process.kill()
    process.wait()


def test_a_log_line_names_the_slice(run):
    said = run(INITIALIZE + "tf.tpu.experimental.initialize_tpu_system(resolver)", TF_CPP_MIN_LOG_LEVEL=None)
    assert "TPU system initialized: TPU v2-8\n" in said, said


def test_a_second_process_is_told_who_has_it(run, node, holder):
    said = run(TRY, TORUS_SLICE=node)
    assert "initialized" not in said and "lives on" in said
    assert f"already in use by process with pid {holder.pid} (" in said and "python" in said, said


def test_a_tpu_is_free_again_when_its_process_was_killed(run, node, holder):
    holder.kill()
    holder.wait()
    assert "initialized" in run(TRY, TORUS_SLICE=node)


def test_a_slice_file_that_is_missing(run, tmp_path):
    said = run(TRY, TORUS_SLICE=str(tmp_path / "none"))
    assert "initialized" not in said and "lives on" in said
    assert "The slice file" in said, said


def test_a_type_that_does_not_exist(run):
    said = run(TRY, TPU_ACCELERATOR_TYPE="v2-7")
    assert "initialized" not in said and "lives on" in said
    assert "v2-7" in said, said


def test_a_tensorflow_without_an_adapter(run, libtpu, tmp_path):
    shutil.copy(libtpu, tmp_path)
    (tmp_path / "engine").symlink_to(libtpu.parent / "engine")
    said = run(TRY, TPU_LIBRARY_PATH=str(tmp_path / "libtpu.so"))
    assert "initialized" not in said and "lives on" in said
    assert f"there is no {tmp_path}/tensorflow/2.20/adapter.so" in said, said


def test_a_strategy_before_initialize(run):
    said = run(INITIALIZE + """
try:
    strategy = tf.distribute.TPUStrategy(resolver)
    print("made")
    with strategy.scope():
        v = tf.Variable(1.)
    print(strategy.run(tf.function(lambda: v + 1)))
except Exception as error:
    print(type(error).__name__, error)
tf.tpu.experimental.initialize_tpu_system(resolver)
print(tf.distribute.TPUStrategy(resolver).num_replicas_in_sync, "replicas")
""")
    assert "8 replicas" in said, said


@pytest.mark.parametrize("kind, cores, mesh", [
    ("v3-8", 8, [2, 2, 1, 2]), (None, 4, [2, 2, 1, 1]), ("v5litepod-1", 1, [1, 1, 1, 1])])
def test_other_slices(run, kind, cores, mesh):
    said = run(INITIALIZE + """
topology = tf.tpu.experimental.initialize_tpu_system(resolver)
strategy = tf.distribute.TPUStrategy(resolver)

@tf.function
def total():
    return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", 1.))

values = strategy.experimental_local_results(total())
print("found", topology.mesh_shape.tolist(), [value.numpy().item() for value in values])
""", TPU_ACCELERATOR_TYPE=kind)
    assert f"found {mesh} {[float(cores)] * cores}" in said, said
