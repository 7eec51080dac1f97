"""The process's TPU, as the tutorials set it up, for the modules of cases."""
import contextlib

import numpy as np
import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
tf.config.experimental_connect_to_cluster(resolver)
topology = tf.tpu.experimental.initialize_tpu_system(resolver)
strategy = tf.distribute.TPUStrategy(resolver)
CORES = 8


def on_each(step, *arguments):
    """What the step returns on each replica: a list of NumPy's arrays, or of lists of them."""
    return values_of(in_function(step)(*arguments))


def in_function(step, on=None):
    """The step on each replica, as a tf.function. (A lambda's name is none that TensorFlow takes.)"""
    @tf.function
    def run(*arguments):
        return (on or strategy).run(step, args=arguments)

    return run


def values_of(per_replica):
    return tf.nest.map_structure(lambda each: [value.numpy() for value in
                                               strategy.experimental_local_results(each)], per_replica)


def on_cpu(function, *arguments):
    """The same without a TPU, and without XLA."""
    with tf.device("/CPU:0"):
        return tf.nest.map_structure(lambda each: each.numpy(), function(*arguments))


def assert_close(ours, expected, tolerance=1e-4):
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(
        np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=tolerance, atol=tolerance),
        ours, expected)


@contextlib.contextmanager
def raises(kind, *texts):
    try:
        yield
    except kind as error:
        for text in texts:
            assert text in str(error), f"{text!r} is not in: {error}"
    else:
        raise AssertionError(f"no {kind.__name__}")
