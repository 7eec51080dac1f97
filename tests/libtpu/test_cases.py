"""What real users ran into with libtpu on one host: a test a report, named by the report."""
import pathlib
import shutil
import subprocess
import sys
import uuid

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOLD = "import jax; print(jax.device_count(), flush=True); input()"


@pytest.fixture
def node(tmp_path):
    """The description of a node of its own, so that nobody else has its chips."""
    file = tmp_path / "slice"
    file.write_text(f"ACCELERATOR_TYPE: 'v2-8'\nTORUS_NODE_UID: 'case-{uuid.uuid4().hex}'\n")
    return str(file)


@pytest.fixture
def holder(environment, node):
    """A live process that has the node's chips."""
    process = subprocess.Popen([sys.executable, "-c", HOLD], env=environment | {"TORUS_SLICE": node},
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "8\n"
    yield process
    process.kill()
    process.wait()


def test_a_dead_holders_lock_is_reclaimed(run, node, holder):
    """jax#10192: the process that had the TPU died, and its lock file kept everybody out."""
    holder.kill()
    holder.wait()
    assert run("import jax; print(jax.devices()[0].platform)", TORUS_SLICE=node) == "tpu\n"


def test_no_quiet_cpu_while_another_process_has_the_tpu(run, node, holder):
    """jax#22070, sglang-jax#857: a second process trained on the CPU and nobody noticed.

    With JAX_PLATFORMS unset JAX itself goes on with the CPU, whatever a TPU says; named, it stops.
    """
    error = run("import jax; print(jax.devices())", fails=True, TORUS_SLICE=node,
                JAX_PLATFORMS="tpu,cpu")
    assert "ABORTED" in error and f"pid {holder.pid}" in error and "import jax" in error


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
    """pytorch/xla#1735, #3470: 3.95G to reserve and 1.92G free, in libtpu's words."""
    run("""
        import jax, jax.numpy as jnp
        MIB = 2**20
        held = jax.block_until_ready(jnp.ones(int(5.56 * 1024) * MIB, jnp.int8))
        try:
            jax.block_until_ready(jnp.zeros(int(3.95 * 1024) * MIB, jnp.int8))
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            said = str(error)
        assert "RESOURCE_EXHAUSTED" in said and "Ran out of memory on HBM" in said, said
        assert "Attempting to reserve 3.95G" in said, said
        assert "There are 1.92G free" in said, said
        """, TPU_ACCELERATOR_TYPE="v2-8")
