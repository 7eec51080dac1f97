"""TORUS_VERIFY_WITH: programs are compiled by another libtpu, too. Torus's own stands in for
Google's here; a test with Google's runs where TORUS_REAL_LIBTPU names it or Python finds it."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import time

import pytest

PROGRAM = """
import jax, jax.numpy as jnp
def matmul(a, b):
    return jnp.tanh(a @ b).sum()
print(jax.jit(matmul)(jnp.ones((1024, 512)), jnp.ones((512, 256))))
"""
TOO_LARGE = """
import jax, jax.numpy as jnp
def too_large(x):
    return jnp.sort(x @ x.T, axis=0)[0]
try:
    jax.jit(too_large).lower(jax.ShapeDtypeStruct((100000, 128), jnp.float32)).compile()
except jax.errors.JaxRuntimeError as error:
    print(str(error).split(":")[0])
"""


@pytest.fixture
def verify(environment):
    """verify(code, library) runs the code and returns what it wrote to stdout and stderr."""

    def verify(code, library=None, **variables):
        variables = {"TPU_ACCELERATOR_TYPE": "v5litepod-4"} | variables
        if library is not None:
            variables["TORUS_VERIFY_WITH"] = str(library)
        done = subprocess.run([sys.executable, "-c", code], env=environment | variables, timeout=300,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout, done.stderr

    return verify


def block(stderr, name):
    """The lines about the program: its verdict, what the other libtpu says, what Torus says."""
    lines = stderr.splitlines()
    [at] = [i for i, line in enumerate(lines) if line.startswith(f"torus-verify: {name} ")]
    return lines[at:at + 3]


def test_says_what_both_compilers_say(verify, libtpu):
    stdout, stderr = verify(PROGRAM, libtpu)
    assert stdout == "262144.0\n"
    verdict, real, ours = block(stderr, "jit_matmul")
    assert verdict.endswith("compiles for a real TPU v5 lite (HBM 15.75G)")
    assert real.removeprefix("  real: ") == ours.removeprefix("  ours: ")
    assert "HBM 2.50M, 2.687e+08 flops" in ours


def test_a_program_that_will_not_fit(verify, libtpu):
    stdout, stderr = verify(TOO_LARGE, libtpu)
    assert stdout == "RESOURCE_EXHAUSTED\n"
    assert "DOES NOT COMPILE for a real TPU v5 lite" in stderr
    assert "real: RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM" in stderr


def test_what_is_no_libtpu_gets_one_line(verify, tmp_path):
    text = tmp_path / "libtpu.so"
    text.write_text("This is no library. " * 10)
    for library, why in (("/nowhere/libtpu.so", "there is no such file"), (text, "invalid ELF header"),
                         ("libm.so.6", "there is no such file")):
        stdout, stderr = verify(PROGRAM, library)
        assert stdout == "262144.0\n"
        [line] = stderr.splitlines()
        assert line.startswith(f"torus-verify: no program is checked with {library}: ") and why in line


@pytest.mark.parametrize("body, why", [("abort();", "signal 6"), ("_exit(3);", "exit code 3")])
def test_a_library_that_crashes_does_no_harm(verify, tmp_path, body, why):
    source, library = tmp_path / "crash.c", tmp_path / "crash.so"
    source.write_text("#include <stdlib.h>\n#include <unistd.h>\nvoid* GetPjrtApi(void) { %s return 0; }\n" % body)
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", library], check=True)
    stdout, stderr = verify(PROGRAM, library)
    assert stdout == "262144.0\n"
    [line] = stderr.splitlines()
    assert why in line and str(library) in line


def test_a_library_that_hangs_holds_nobody_up(environment, tmp_path):
    source, library = tmp_path / "hang.c", tmp_path / "hang.so"
    source.write_text("#include <unistd.h>\nvoid* GetPjrtApi(void) { sleep(30); return 0; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", library], check=True)
    begin = time.monotonic()
    with open(tmp_path / "stderr", "w") as stderr:  # no pipe, whose end subprocess.run would wait for
        subprocess.run([sys.executable, "-c", PROGRAM], timeout=120, check=True, stderr=stderr,
                       env=environment | {"TORUS_VERIFY_WITH": str(library)}, stdout=subprocess.DEVNULL)
    assert time.monotonic() - begin < 29


def test_nothing_is_started_without_the_variable(verify):
    assert verify(PROGRAM) == ("262144.0\n", "")


def real_libtpu():
    named = os.environ.get("TORUS_REAL_LIBTPU")
    if named is None:
        found = importlib.util.find_spec("libtpu")
        named = pathlib.Path(found.origin).with_name("libtpu.so") if found and found.origin else None
    return named


@pytest.mark.skipif(real_libtpu() is None, reason="needs Google's libtpu: pip install libtpu, or TORUS_REAL_LIBTPU")
def test_googles_libtpu(verify):
    _, stderr = verify(PROGRAM, real_libtpu())
    verdict, real, ours = block(stderr, "jit_matmul")
    assert "compiles for a real TPU v5 lite" in verdict
    assert "HBM 2.50M, 2.687e+08 flops" in real and "HBM 2.50M, 2.687e+08 flops" in ours
    _, stderr = verify(TOO_LARGE, real_libtpu())
    assert "real: RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom" in stderr
