"""TensorFlow's side of torus_tpu: connects to the TPU that find.py found, and makes the strategy."""
from torus_tpu import NoTpu
from torus_tpu.find import find

_strategies = {}  # by what the resolver was given


def has_kernels():
    """Whether this TensorFlow can have a TPU in its own process: tensorflow-tpu can."""
    from tensorflow.python.framework import kernels
    return bool(kernels.get_registered_kernels_for_op("TPUExecute").kernel)


def default_strategy():
    """(strategy, what to know of it)."""
    import tensorflow as tf
    # Keras asks for XLA wherever a model allows it, and fails with a sentence about "platform Host".
    note = "; tensorflow-tpu has no XLA for CPUs: compile Keras models with jit_compile=False" if has_kernels() else ""
    return tf.distribute.get_strategy(), note


def connect(asked, bfloat16):
    """(strategy, what to say). NoTpu: why there is none."""
    found = find(asked, has_kernels())
    strategy = _strategies.get(found.tpu)
    if strategy is None:
        strategy = _strategies[found.tpu] = _initialise(found)
    said = f"TPUStrategy of {strategy.num_replicas_in_sync} replicas on {found.where}"
    return strategy, f"{said}; {choose_precision(found.software, bfloat16)}"


def _initialise(found):
    import tensorflow as tf
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=found.tpu)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except Exception as error:  # of gRPC, of the worker, of a lookup: whatever it is, there is no TPU
        raise NoTpu(f"{found.where} does not serve: {type(error).__name__}: {_sentence(error)}") from error


def _sentence(error):
    """What an error says, without the graph around it."""
    around = ("Graph execution error:", "Detected at node ", "  File ", "<stack traces unavailable>", "\t [[")
    return next((line for line in str(error).splitlines() if line and not line.startswith(around)), "")


def choose_precision(software, bfloat16):
    """Sets Keras's policy where that is wanted; says which it is and why."""
    from tensorflow import keras
    now = getattr(keras.mixed_precision, "dtype_policy", keras.mixed_precision.global_policy)().name
    if now != "float32":
        return f"{now}, which the program set"
    if bfloat16 is False or (bfloat16 is None and software is None):
        return "float32 (bfloat16=True has the matrix units compute in bfloat16)"
    if bfloat16 is None and software:
        return "float32, since a software TPU is no faster in bfloat16 (bfloat16=True computes as a chip would)"
    set_policy = getattr(keras.mixed_precision, "set_dtype_policy", None) or keras.mixed_precision.set_global_policy
    set_policy("mixed_bfloat16")
    return "mixed_bfloat16: layers compute in bfloat16, variables stay float32 (bfloat16=False leaves it)"
