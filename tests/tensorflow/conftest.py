"""Tests of TensorFlow on libtpu.so: each runs in a process of the Python that scripts/tensorflow.sh
installs. TORUS_LIBTPU names the library (default: build/release/libtpu.so).

To import TensorFlow takes seconds, so the functions of a module in in_process/ run in one process,
and each of them is a test here: of the file whose CASES names that module.
"""
import ast
import json
import os
import pathlib
import subprocess
import textwrap

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
IN_PROCESS = pathlib.Path(__file__).with_name("in_process")
VERSION = os.environ.get("TORUS_TENSORFLOW", "2.20.0")
PYTHON = ROOT / f"build/tensorflow/{VERSION}/bin/python"
TIMEOUT = 1200  # of a process


def pytest_generate_tests(metafunc):
    if "case" not in metafunc.fixturenames:
        return
    tree = ast.parse((IN_PROCESS / f"{metafunc.module.CASES}.py").read_text())
    names = [node.name for node in tree.body
             if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    unfinished = getattr(metafunc.module, "UNFINISHED", {})
    metafunc.parametrize("case", [
        pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=unfinished[name]))
        if name in unfinished else name for name in names])


@pytest.fixture(scope="session")
def python():
    """The Python that has TensorFlow."""
    if not PYTHON.exists():
        pytest.skip(f"tensorflow-tpu {VERSION} is not installed; scripts/tensorflow.sh installs it")
    return PYTHON


@pytest.fixture(scope="session")
def libtpu(python):
    path = pathlib.Path(os.environ.get("TORUS_LIBTPU", ROOT / "build/release/libtpu.so")).resolve()
    assert path.exists(), f"{path} is not built; TORUS_LIBTPU names another"
    adapter = path.parent / "tensorflow" / VERSION.rpartition(".")[0] / "adapter.so"
    if not adapter.exists():
        pytest.skip(f"{adapter} is not built; scripts/tensorflow.sh installs what it is built from")
    return path


@pytest.fixture(scope="session")
def environment(libtpu):
    """The environment of a program that finds libtpu.so, without this shell's TPU settings."""
    ours = ("TPU_", "TORUS_", "TF_", "XLA_", "PYTHON")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    # TPU_LOAD_LIBRARY: TensorFlow has a lock of its own, on one file for all TPUs of a machine, and
    # says nothing where another process has it. The library's lock stays.
    return kept | {"TPU_LIBRARY_PATH": str(libtpu), "TPU_ACCELERATOR_TYPE": "v2-8",
                   "TPU_LOAD_LIBRARY": "1", "TORUS_PROGRAM_CACHE": "off",
                   "TF_CPP_MIN_LOG_LEVEL": "1", "PYTHONPATH": str(IN_PROCESS)}


@pytest.fixture(scope="session")
def run(python, environment):
    """run(code, VARIABLE=value or None, ...) runs code in a new process and returns its output.

    The code must end well; what it wrote to stderr is part of the output.
    """

    def run(code, **variables):
        variables = {k: v for k, v in (environment | variables).items() if v is not None}
        done = subprocess.run([python, "-c", textwrap.dedent(code)], timeout=TIMEOUT, env=variables,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}"
        return done.stdout

    return run


@pytest.fixture(scope="module")
def results(request, python, environment, tmp_path_factory):
    """Of each case of the module that CASES names: "" or its traceback; and how the process ended."""
    folder = tmp_path_factory.mktemp(request.module.CASES)
    results, output = folder / "results", folder / "output"
    with output.open("w") as file:
        process = subprocess.Popen([python, IN_PROCESS / "cases.py", request.module.CASES, results],
                                   env=environment, stdout=file, stderr=subprocess.STDOUT)
        try:
            end = f"exit code {process.wait(TIMEOUT)}"
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            end = f"killed after {TIMEOUT} s"
    lines = results.read_text().splitlines() if results.exists() else []
    return dict(map(json.loads, lines)), f"{end}\n{output.read_text()[-20000:]}"


@pytest.fixture
def passes(results):
    """passes(case) fails with the case's traceback, or with the process's output where it never ended."""

    def passes(case):
        tracebacks, end = results
        assert case in tracebacks, f"{case} did not end: {end}"
        if tracebacks[case]:
            pytest.fail(tracebacks[case], pytrace=False)

    return passes
