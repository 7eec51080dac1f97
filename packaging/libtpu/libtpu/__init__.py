"""The module that JAX and PyTorch/XLA look for: where the TPU's library is. Here it is Torus's, a software TPU."""
import pathlib

__version__ = "0.1.0"


def get_library_path() -> str:
    """The path of libtpu.so; its engine lies beside it."""
    return str(pathlib.Path(__file__).with_name("libtpu.so"))


def configure_library_path() -> None:
    """For frameworks that read TPU_LIBRARY_PATH instead; one that is set already is left alone."""
    import os
    os.environ.setdefault("TPU_LIBRARY_PATH", get_library_path())
