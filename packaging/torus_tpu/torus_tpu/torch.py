"""PyTorch's side of torus_tpu: the TPU's torch.device, by torch_xla."""
import os

import torch

from torus_tpu import NoTpu


def default_device():
    """(device, what to know of it)."""
    return torch.device("cpu"), ""


def connect():
    """(device, what to say). NoTpu: why there is none."""
    try:
        import torch_xla
    except ImportError as error:
        raise NoTpu(f"PyTorch reaches TPUs by torch_xla, which cannot be imported ({error}): pip install "
                    "'torch_xla[tpu]' of torch's own version") from None
    from torch_xla import runtime
    asked = os.environ.setdefault("PJRT_DEVICE", "TPU")
    if asked != "TPU":
        raise NoTpu(f"PJRT_DEVICE={asked} asks for another device: unset it, or set it to TPU")
    try:
        device = torch_xla.device()
        return device, f"{device}, one of {runtime.global_runtime_device_count()} devices of the TPU"
    except Exception as error:  # whatever it is, there is no TPU
        first = str(error).strip().splitlines() or [""]
        raise NoTpu(f"torch_xla finds no TPU: {type(error).__name__}: {first[0]} (torus doctor says more)") from error
