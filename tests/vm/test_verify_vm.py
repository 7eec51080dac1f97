"""TORUS_VERIFY_WITH in a TPU VM: torus-verify lies beside libtpu.so there, and says what is missing.

Torus's own library stands in for Google's; with Google's where TORUS_REAL_LIBTPU names it.
"""
import os
import pathlib

import pytest

PROGRAM = "import jax, jax.numpy as jnp; print(jax.jit(lambda a: (a @ a)[0, 0])(jnp.ones((512, 512))))"
REAL = os.environ.get("TORUS_REAL_LIBTPU")


@pytest.fixture(scope="module")
def jax_vm(local, vm):
    local.ssh(vm, "pip install -q 'jax==0.10.2'", timeout=900)
    return vm


def verified(local, node, library):
    """What the program prints, and what it says on stderr, when it is checked with the library."""
    done = local.ssh(node, f"TORUS_VERIFY_WITH={library} python3 -c '{PROGRAM}'", timeout=600)
    assert done.stdout.strip() == "512.0", done.stdout + done.stderr
    return done.stderr


def test_it_says_what_both_compilers_say(local, jax_vm):
    said = verified(local, jax_vm, "/opt/torus/libtpu.so")
    assert "torus-verify: jit__lambda compiles for a real TPU v2 (HBM 7.48G)" in said, said
    assert "  real: HBM " in said and "  ours: HBM " in said, said


def test_it_says_that_there_is_no_such_library(local, jax_vm):
    said = verified(local, jax_vm, "/home/dev/libtpu.so")
    assert "torus-verify: no program is checked with /home/dev/libtpu.so: there is no such file" in said, said


@pytest.mark.skipif(REAL is None, reason="needs Google's libtpu: TORUS_REAL_LIBTPU names it")
def test_googles_libtpu(local):
    """On a v5e, for which Google's newest still compiles."""
    node = "verify-real"
    local.vm("create", node, "--accelerator-type=v5litepod-4", "--version=v2-alpha-tpuv5-lite")
    local.ssh(node, "pip install -q 'jax==0.10.2'", timeout=900)
    local.torus("tpu-vm", "scp", str(pathlib.Path(REAL)), f"dev@{node}:/tmp/libtpu.so", "--quiet", timeout=300)
    said = verified(local, node, "/tmp/libtpu.so")
    assert "torus-verify: jit__lambda compiles for a real TPU v5 lite (HBM 15.75G)" in said, said
    assert "  real: HBM " in said and "  ours: HBM " in said, said
    local.vm("delete", node, "--quiet")
