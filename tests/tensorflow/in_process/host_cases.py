"""What a step does on its host (outside compilation), asked for or not, on one core and on eight."""
import pathlib
import tempfile

import numpy as np
import tensorflow as tf

from tpu import CORES, in_function, on_each, raises, resolver, strategy, topology, values_of

ALONE = tf.distribute.TPUStrategy(resolver, experimental_device_assignment=(
    tf.tpu.experimental.DeviceAssignment.build(topology, num_replicas=1)))
tf.config.set_soft_device_placement(True)  # by which the host does what only it can
outside = tf.compat.v1.tpu.outside_compilation


def _mine():
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    return tf.reshape(tf.cast(replica, tf.float32), (1,))


def _total(x):
    return tf.distribute.get_replica_context().all_reduce("SUM", x)


def _host(function, x):
    """The NumPy function on the host, asked for."""
    return outside(lambda x: tf.ensure_shape(tf.numpy_function(function, (x,), x.dtype), x.shape), x)


def _file():
    return pathlib.Path(tempfile.mkdtemp(), "output")


def a_step_asks_its_host():
    def step():
        return _host(lambda x: x * 2 + 1, _mine() + 1.) * 10.

    assert np.ravel(on_each(step)).tolist() == [(2 * core + 3) * 10 for core in range(CORES)]
    assert np.ravel(values_of(in_function(step, ALONE)())).tolist() == [30]


def collectives_around_what_the_host_does():
    def step():
        x = _host(lambda x: x + 1, _total(_mine()))
        return _total(_host(lambda x: x * 3, x))

    for _ in range(3):
        assert np.ravel(on_each(step)).tolist() == [(28 + 1) * 3 * CORES] * CORES


def print_in_a_step():
    file = _file()

    def step():
        x = _total(_mine())
        tf.print("the sum is", x, "of", _mine(), output_stream=f"file://{file}")
        return tf.reduce_sum(x)

    assert on_each(step) == [28] * CORES
    assert sorted(file.read_text().split("\n")[:-1]) == [
        f"the sum is [28] of [{core}]" for core in range(CORES)]
    file.unlink()
    assert values_of(in_function(step, ALONE)()) == [0]
    assert file.read_text() == "the sum is [0] of [0]\n"


def print_where_the_program_goes():
    file = _file()

    @tf.function
    def inner(x):
        tf.print("inner", x, output_stream=f"file://{file}")
        return x + 1.

    def step():
        x = tf.reduce_sum(_mine()) * 0.
        for i in tf.range(3):
            x = inner(x) * 2.
            if x > 5.:
                tf.print("large", i, x, output_stream=f"file://{file}")
        return x

    step = tf.autograph.to_graph(step)
    assert values_of(in_function(step, ALONE)()) == [14]
    lines = file.read_text().split("\n")[:-1]  # each print's are in order
    assert sorted(lines, key=lambda line: line[:5]) == [
        "inner 0", "inner 2", "inner 6", "large 1 6", "large 2 14"]


def strings_are_the_hosts():
    def step():
        words = tf.strings.join(["1", tf.strings.as_string(tf.cast(_mine(), tf.int32))])
        return tf.reshape(tf.strings.to_number(words), (1,)) * 2.

    assert np.ravel(on_each(step)).tolist() == [2 * (10 + core) for core in range(CORES)]


def summary_in_a_step():
    folder = tempfile.mkdtemp()
    writer = tf.summary.create_file_writer(folder)

    def step(x):
        loss = tf.reduce_sum(x * 2.)
        tf.summary.scalar("loss", loss, step=7)
        return loss + 1.

    with writer.as_default():
        assert on_each(step, tf.constant([1., 2.])) == [7] * CORES
    writer.flush()
    events, = pathlib.Path(folder).iterdir()
    found = [(event.step, value.tag, tf.make_ndarray(value.tensor).item())
             for event in tf.compat.v1.train.summary_iterator(str(events)) for value in event.summary.value]
    assert found == [(7, "loss", 6.)]  # as of every strategy, the first replica's


def asserts_are_let_pass():
    def step():
        x = _mine()
        tf.debugging.assert_non_negative(x, message="it is negative")
        return x

    assert np.ravel(on_each(step)).tolist() == list(range(CORES))


def a_host_that_fails_fails_the_step():
    def fail(x):
        if x[0] == 3:
            raise ValueError("the host does not like 3")
        return x

    def alone():
        return _host(fail, _mine())

    def together():
        return _total(_host(fail, _mine()))

    def three():
        return _total(_host(fail, _mine() * 0. + 3.))

    for step in alone, together, three, together, alone:
        with raises(tf.errors.InvalidArgumentError, "the host does not like 3"):
            on_each(step)
        assert np.ravel(on_each(_sum_of_all)).tolist() == [28] * CORES


def what_a_failed_step_left_alone_can_be_read():
    def fail(x):
        raise ValueError("the host does not like it")

    with strategy.scope():
        failed, kept = tf.Variable(1.), tf.Variable(2.)

    def step():
        failed.assign(tf.reduce_sum(_host(fail, _mine())))
        return _mine()

    with raises(tf.errors.InvalidArgumentError, "the host does not like it"):
        on_each(step)
    for _ in range(3):
        with raises(tf.errors.InvalidArgumentError, "the host does not like it"):
            failed.numpy()
        assert kept.numpy() == 2.
    failed.assign(3.)
    assert failed.numpy() == 3. and kept.numpy() == 2.


def _sum_of_all():
    return _total(_mine())


def a_shape_that_the_host_does_not_tell():
    def step():
        return outside(lambda x: tf.numpy_function(lambda x: x, (x,), tf.float32), _mine()) + 1.

    with raises(tf.errors.InvalidArgumentError, "tf.ensure_shape"):
        on_each(step)


def many_steps():
    def step(x):
        return _total(_host(lambda x: x + 1, x))

    step = in_function(step)
    for i in range(50):
        assert np.ravel(values_of(step(tf.constant([float(i)])))).tolist() == [(i + 1) * CORES] * CORES


def keras_prints_while_it_trains():
    file = _file()

    class Model(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(1)

        def call(self, x):
            tf.print("a batch of", tf.shape(x)[0], output_stream=f"file://{file}")
            return self.dense(x)

    with strategy.scope():
        model = Model()
        model.compile("sgd", "mse")
    model.fit(np.ones((64, 3), np.float32), np.ones((64, 1), np.float32), batch_size=32, verbose=0)
    assert file.read_text().split("\n")[:-1] == ["a batch of 4"] * CORES * 2
