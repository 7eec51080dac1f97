"""What a program costs, by XLA's rules and the generation's roofline."""

HELPERS = """
import jax, jax.numpy as jnp, pytest
def cost(f, *shapes, dtype=jnp.float32):
    arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    return jax.jit(f).lower(*arguments).compile().cost_analysis()
"""


def test_counts_as_xla_does(run):
    run(HELPERS + """
dot = cost(lambda a, b: a @ b, (1024, 512), (512, 256))
assert dot["flops"] == 2 * 1024 * 512 * 256, dot
assert cost(lambda a, b: a + b, (4096, 4096), (4096, 4096)) == pytest.approx({
    "flops": 2**24, "transcendentals": 0, "bytes accessed": 3 * 2**26,
    "bytes accessed0{}": 2**26, "bytes accessed1{}": 2**26, "bytes accessedout{}": 2**26,
    "optimal_seconds": 0.00027292576851323247}, rel=1e-3)  # libtpu 0.0.52's own
tanh = cost(jnp.tanh, (4096, 4096))
assert (tanh["flops"], tanh["transcendentals"]) == (0, 2**24), tanh
assert cost(lambda a: a.sum(), (4096, 4096))["flops"] == pytest.approx(2**24, rel=0.01)
step = lambda c, _: (jnp.tanh(c @ c), None)
loop = cost(lambda a: jax.lax.scan(step, a, None, length=10)[0], (512, 512))
assert loop["flops"] == pytest.approx(2 * 512**3, rel=0.01), loop  # a loop's body counts once
""", TPU_ACCELERATOR_TYPE="v5litepod-1")


def test_a_faster_chip_takes_less_time(run):
    code = HELPERS + """
square = (4096, 4096)
print(cost(lambda a, b: a @ b, square, square, dtype=jnp.bfloat16)["optimal_seconds"])
"""
    seconds = [float(run(code, TPU_ACCELERATOR_TYPE=name))
               for name in ("v2-8", "v3-8", "v5litepod-1", "v6e-1")]
    assert seconds == sorted(seconds, reverse=True)
    for ours, real in zip(seconds, (6.028e-3, 2.238e-3, 0.880e-3, 0.232e-3)):
        assert real / 2 < ours < real * 2
