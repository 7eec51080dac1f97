"""Options of the TPU's compiler: known ones are checked, unknown ones refused by name."""
import pytest

COMPILE = """
import jax, numpy as np
def compile(**options):
    return jax.jit(lambda x: x + 1).lower(np.float32(1)).compile(compiler_options=options)
"""


def test_known_options_change_nothing(run):
    run(COMPILE + """
f = compile(xla_tpu_scoped_vmem_limit_kib="65536", xla_tpu_enable_async_collective_fusion=True,
            xla_tpu_aggressive_opt_barrier_removal="ENABLED", xla_enable_async_all_gather="true",
            xla_tpu_memory_bound_loop_optimizer_options="enabled:true", xla_latency_hiding_scheduler_rerun=2)
assert f(np.float32(2)) == 3
""")


@pytest.mark.parametrize("option, value, words", [
    ("xla_tpu_scoped_vmem_limit_kb", "1", "'xla_tpu_scoped_vmem_limit_kib'"),
    ("xla_tpu_scoped_vmem_limit_kib", "lots", "is an integer, not 'lots'"),
    ("xla_tpu_enable_async_collective_fusion", "2", "is true or false, not '2'"),
    ("xla_no_such_option", "1", "xla_no_such_option"),  # the engine's own words
])
def test_what_is_wrong_is_named(run, option, value, words):
    error = run(COMPILE + f"compile({option}={value!r})", fails=True)
    assert "INVALID_ARGUMENT" in error and option in error and words in error


def test_a_list_of_any_option_can_pass(run):
    run(COMPILE + "compile(xla_tpu_of_tomorrow=True)", TORUS_ANY_TPU_OPTION="1")
