"""Tests of libtpu.so as frameworks load it, with real JAX, each in a process of its own.

TORUS_LIBTPU names the library (default: build/release/libtpu.so). Run with a Python that has
tests/requirements.txt installed.
"""
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def libtpu():
    path = pathlib.Path(os.environ.get("TORUS_LIBTPU", ROOT / "build/release/libtpu.so")).resolve()
    assert path.exists(), f"{path} is not built; TORUS_LIBTPU names another"
    return path


@pytest.fixture(scope="session")
def environment(libtpu):
    """The environment of a program that finds libtpu.so, without this shell's TPU settings."""
    ours = ("TPU_", "TORUS_", "JAX_", "XLA_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    # What one test compiled, the next one would load: off, but for the tests of it.
    return kept | {"TPU_LIBRARY_PATH": str(libtpu), "JAX_PLATFORMS": "tpu",
                   "TORUS_PROGRAM_CACHE": "off"}


@pytest.fixture(scope="session")
def run(environment):
    """run(code, VARIABLE=value, ...) runs Python code in a new process and returns its output.

    The code must end well; with fails=True it must not, and what it wrote to stderr is returned.
    """

    def run(code, fails=False, timeout=120, **variables):
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], timeout=timeout,
                              env=environment | variables, capture_output=True, text=True)
        if fails:
            assert done.returncode == 1, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
            return done.stderr
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    return run


@pytest.fixture
def hold(environment, node):
    """hold(VARIABLE=value, ...) starts a process that has the node's chips until the test ends."""
    started = []

    def hold(**variables):
        process = subprocess.Popen([sys.executable, "-c", "import jax; print(jax.device_count())\ninput()"],
                                   text=True, env=environment | {"TORUS_SLICE": node} | variables,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert int(process.stdout.readline()) > 0
        return process

    yield hold
    for process in started:
        process.kill()
        process.wait()
