"""Finds the TPU for a program, or says why there is none to have.

    import torus_tpu
    strategy = torus_tpu.auto_strategy()   # TensorFlow: a TPUStrategy, or the default strategy
    device = torus_tpu.device("tpu")       # PyTorch: the TPU, or the CPU

Neither raises where there is no TPU, unless `required=True`: they say it on a line of stderr, and
`torus_tpu.reason()` has it. Importing this module imports no framework.
"""
import sys

__version__ = "0.1.0"
__all__ = ["NoTpu", "auto_strategy", "device", "reason"]

_reason = None


class NoTpu(RuntimeError):
    """There is no TPU to have. The message says why, and what to do."""


def auto_strategy(tpu=None, *, required=False, bfloat16=None):
    """Finds the TPU, connects to it, initialises it, and returns its tf.distribute.TPUStrategy.

    tpu       what TPUClusterResolver takes: a node's name, "grpc://address", "local". Default: what TPU_NAME
              says; else this process's own TPU, else the worker of the TPU VM that this is.
    required  raise NoTpu instead of returning the default strategy.
    bfloat16  True or False: Keras computes in mixed_bfloat16, or stays as it is. Default: mixed_bfloat16 on a
              chip, which has its matrix units in it; not on a software TPU; and never over a policy that is set.

    A second call returns the first one's strategy: to initialise a TPU again empties its memory.
    """
    from torus_tpu import tensorflow
    return _settle(lambda: tensorflow.connect(tpu, bfloat16), tensorflow.default_strategy, required)


def device(kind="tpu", *, required=False):
    """The torch.device of the TPU, by torch_xla; without one torch.device("cpu")."""
    if kind != "tpu":
        raise ValueError(f'torus_tpu.device("{kind}"): the one kind is "tpu"; use torch.device for others')
    from torus_tpu import torch
    return _settle(torch.connect, torch.default_device, required)


def reason():
    """Why the last call found no TPU: a sentence. None where it found one."""
    return _reason


def _settle(connect, default, required):
    global _reason
    try:
        found, said = connect()
        _reason = None
    except NoTpu as error:
        _reason = str(error)
        if required:
            raise
        found, note = default()
        said = f"no TPU, so this runs without one: {error}{note}"
    print(f"torus_tpu: {said}", file=sys.stderr, flush=True)
    return found

