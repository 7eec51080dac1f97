"""What real users ran into with libtpu on one host: a test a report, named by the report."""
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_a_dead_holders_lock_is_reclaimed(run, node, hold):
    """jax#10192: the process that had the TPU died, and its lock file kept everybody out."""
    holder = hold()
    holder.kill()
    holder.wait()
    assert run("import jax; print(jax.devices()[0].platform)", TORUS_SLICE=node) == "tpu\n"


@pytest.mark.parametrize("told", ["JAX_PLATFORMS=tpu,cpu", "JAX_FORCE_TPU_INIT=1"])
def test_no_quiet_cpu_while_another_process_has_the_tpu(run, node, hold, told):
    """jax#22070, sglang-jax#857: a second process trained on the CPU and nobody noticed.

    With JAX_PLATFORMS unset JAX goes on with the CPU where it sees no TPU, whatever libtpu says.
    It looks for Google's PCI functions, which a TPU VM shows (tests/vm/test_chips.py), and then
    names tpu,cpu itself; JAX_FORCE_TPU_INIT does the same where there are none.
    """
    holder = hold()
    name, value = told.split("=")
    error = run(f"""
        import os
        del os.environ["JAX_PLATFORMS"]
        os.environ["{name}"] = "{value}"
        import jax
        print(jax.devices())
        """, fails=True, TORUS_SLICE=node)
    assert "ABORTED" in error and f"pid {holder.pid}" in error and "import jax" in error


OTHER_FRAMEWORK = """
#include <dlfcn.h>
#include <stdio.h>
#include "pjrt_c_api.h"
static const PJRT_Api* api;
static PJRT_Client* client;
int take_chips(const char* libtpu) {
  api = ((const PJRT_Api* (*)(void))dlsym(dlopen(libtpu, RTLD_NOW), "GetPjrtApi"))();
  PJRT_Client_Create_Args args = {.struct_size = PJRT_Client_Create_Args_STRUCT_SIZE};
  if (api->PJRT_Client_Create(&args)) return 1;
  client = args.client;
  return 0;
}
int leave_chips(void) {
  PJRT_Client_Destroy_Args args = {PJRT_Client_Destroy_Args_STRUCT_SIZE, NULL, client};
  return api->PJRT_Client_Destroy(&args) != NULL;
}
"""


def test_the_framework_that_has_the_chips_is_named(run, libtpu, node, tmp_path):
    """jax#20148: with torch_xla loaded, JAX spoke of PJRT's version."""
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    framework = tmp_path / "_XLAC.so"
    (tmp_path / "framework.c").write_text(OTHER_FRAMEWORK)
    subprocess.run([compiler, "-Wall", "-Werror", "-shared", "-fPIC", "-O0",
                    f"-I{ROOT}/build/deps/include", "-o", framework, tmp_path / "framework.c",
                    "-ldl"], check=True)
    run(f"""
        import ctypes, os
        torch = ctypes.CDLL("{framework}")
        assert torch.take_chips(b"{libtpu}") == 0
        import jax
        try:
            jax.devices()
        except RuntimeError as error:
            said = str(error)
        assert f"in use by PyTorch/XLA in this process (pid {{os.getpid()}}, {framework})" in said, said
        assert "JAX cannot have it" in said and "PJRT API" not in said, said
        assert torch.leave_chips() == 0
        assert len(jax.devices()) == 8
        """, TORUS_SLICE=node)


def test_a_c_program_alone_runs_a_program(libtpu, environment, tmp_path):
    """jax#37033: no Python, no Bazel; just dlopen, GetPjrtApi, a StableHLO program."""
    binary = tmp_path / "axpy"
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    subprocess.run([compiler, "-Wall", "-Werror", f"-I{ROOT}/build/deps/include", "-o", binary,
                    ROOT / "tests/libtpu/axpy.c", "-ldl"], check=True)
    done = subprocess.run([binary, libtpu], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "11 41 91\n"


def test_a_program_runs_where_its_device_assignment_says(run):
    """openxla/xla#24990: the device assignment in CompileOptionsProto was lost."""
    run("""
        import jax, jax.numpy as jnp
        for chosen in jax.devices():
            x = jax.device_put(jnp.arange(4.0), chosen)
            compiled = jax.jit(lambda v: v * 2).lower(x).compile()
            assert compiled.runtime_executable().local_devices() == [chosen]
            assert compiled(x).devices() == {chosen}
        pair = jax.sharding.Mesh(jax.devices()[2:4], ("x",))
        spread = jax.NamedSharding(pair, jax.P("x"))
        compiled = jax.jit(lambda v: v * 2).lower(jax.device_put(jnp.arange(4.0), spread)).compile()
        assert compiled.runtime_executable().local_devices() == jax.devices()[2:4]
        """, TPU_ACCELERATOR_TYPE="v5litepod-4")


def test_a_program_that_does_not_fit_beside_what_is_held(run):
    """pytorch/xla#1735, #3470: 3.95G to reserve and 1.92G free: what is large, and what would fit."""
    run("""
        import jax, jax.numpy as jnp
        MIB = 2**20
        double = jax.jit(lambda batch: (batch * 2).astype(jnp.int16))
        def refused(rows):
            try:
                jax.block_until_ready(double(jnp.ones((rows, MIB), jnp.int8)))
            except (jax.errors.JaxRuntimeError, ValueError) as error:
                return str(error)
        held = jax.block_until_ready(jnp.ones(int(3.58 * 1024) * MIB, jnp.int8))
        rows = 2024  # 1.98G of arguments, 3.95G of outputs
        said = refused(rows)
        assert "RESOURCE_EXHAUSTED" in said and "Ran out of memory on HBM" in said, said
        assert "Attempting to reserve 3.95G" in said and "There are 1.92G free" in said, said
        assert "Largest tensors:\\n  3.95G s16[2024,1048576]" in said, said
        assert "1.98G s8[2024,1048576]{1,0} parameter" in said, said
        fits = int(said.split("If the first dimension, 2024, is a batch (of one device), one of ")[1].split()[0])
        assert 900 < fits < rows and refused(fits) is None
        """, TPU_ACCELERATOR_TYPE="v2-8")
