"""A pytest plugin: JAX's tests find their helpers in the source that they run from.

The wheel of JAX leaves out two modules that only tests import (jax._src.hypothesis_test_util and
jax._src.pallas.pallas_test_util). What the installed JAX has stays what is imported.
"""
import pathlib

import jax._src
import jax._src.pallas

SOURCE = pathlib.Path.cwd() / "jax/_src"
jax._src.__path__.append(str(SOURCE))
jax._src.pallas.__path__.append(str(SOURCE / "pallas"))
