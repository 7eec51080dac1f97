"""Programs made at random give the same on the software TPU as on JAX's native CPU backend.

Each is a short chain of jax's operations over arrays of one of several dtypes, placed on one chip
or sharded over the slice. A seed makes the same program on both sides, in one process each. CI runs
60 of them; TORUS_SOAK=1 runs all 300.
"""
import json
import os

import numpy as np

PROGRAMS = 300 if os.environ.get("TORUS_SOAK") else 60
SEED = 20261130

RUN_ALL = """
import json, random, sys
import numpy as np
import jax, jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

SHAPE = (8, 16)
FLOATS = [jnp.float32, jnp.bfloat16, jnp.float16]
INTS = [jnp.int32, jnp.int8, jnp.uint8]
# Each keeps what it needs of its argument finite, and the shape of a step is any of rank 1 to 3.
ANY = {
    "add": lambda x: x + x, "sub": lambda x: x - jnp.flip(x, 0), "mul": lambda x: x * x,
    "max": lambda x: jnp.maximum(x, jnp.roll(x, 1, 0)), "min": lambda x: jnp.minimum(x, x[:1]),
    "sum": lambda x: x.sum(0, keepdims=True) + x, "cumsum": lambda x: jnp.cumsum(x, 0),
    "cummax": lambda x: lax.cummax(x, 0), "sort": lambda x: jnp.sort(x, 0),
    "transpose": lambda x: x.T, "reshape": lambda x: x.reshape(-1, 8), "pad": lambda x: jnp.pad(x, 1),
    "slice": lambda x: x[1:], "gather": lambda x: x[jnp.arange(x.shape[0]) // 2],
    "scatter": lambda x: x.at[0].add(x[-1]), "concat": lambda x: jnp.concatenate([x, x]),
    "where": lambda x: jnp.where(x > 0, x, 0 * x), "clip": lambda x: jnp.clip(x, -1, 3),
    "sign": lambda x: jnp.sign(x) + x, "dot": lambda x: (x if x.dtype.kind in "iu" else x / 8) @ x.T,
    "argmax": lambda x: x + jnp.argmax(x, 0).astype(x.dtype), "repeat": lambda x: jnp.repeat(x, 2, 0),
    "scan": lambda x: lax.scan(lambda c, r: (c + r, c), 0 * x[0], x)[1],
    "while": lambda x: lax.fori_loop(0, 3, lambda i, y: y + x, x),
    "cond": lambda x: lax.cond(x.reshape(-1)[0] > 0, lambda y: y + y, lambda y: y - 1, x),
    "vmap": lambda x: jax.vmap(lambda r: r + r[0])(x),
}
FLOAT = {
    "exp": lambda x: jnp.exp(jnp.tanh(x)), "log": lambda x: jnp.log(1 + jnp.abs(x)),
    "sin": jnp.sin, "cos": jnp.cos, "tanh": jnp.tanh, "sqrt": lambda x: jnp.sqrt(jnp.abs(x) + 1),
    "rsqrt": lambda x: lax.rsqrt(jnp.abs(x) + 1), "div": lambda x: x / (1 + jnp.abs(x)),
    "erf": jax.scipy.special.erf, "logistic": jax.nn.sigmoid, "softmax": lambda x: jax.nn.softmax(x, 0),
    "mean": lambda x: x - x.mean(0, keepdims=True), "round": jnp.round, "pow": lambda x: jnp.tanh(x) ** 3,
    "grad": lambda x: jax.grad(lambda y: jnp.sum(jnp.sin(y)).astype(jnp.float32))(x),
    "conv": lambda x: lax.conv_general_dilated(x[None, None] / 4, jnp.ones((1, 1, 3, 3), x.dtype), (1, 1),
                                               "SAME")[0, 0],
}
INT = {
    "and": lambda x: x & 5, "or": lambda x: x | 2, "xor": lambda x: x ^ jnp.flip(x, 0),
    "shift": lambda x: x << 1, "not": lambda x: ~x, "rem": lambda x: x % 5, "floor_div": lambda x: x // 3,
    "popcount": lax.population_count, "abs": jnp.abs,
}
SHARDINGS = {"one": None, "rows": P("x"), "columns": P(None, "x"), "both": P("x", "y"), "copies": P()}

def make(seed):
    '''A program's name, argument, dtype and sharding.'''
    pick = random.Random(seed)
    dtype = pick.choice(FLOATS + INTS)
    table = ANY | (FLOAT if dtype in FLOATS else INT)
    names = [pick.choice(sorted(table)) for _ in range(pick.randint(2, 5))]
    where = pick.choice(sorted(SHARDINGS))
    data = np.random.default_rng(seed).integers(-6, 7, SHAPE) / (2 if dtype in FLOATS else 1)
    if dtype == jnp.uint8:
        data = abs(data)
    def program(x):
        for name in names:
            x = table[name](x)
            if x.size > 4096:
                x = x[:8, :8]
            if x.ndim != 2 or min(x.shape) < 2 or x.size % 8:
                x = jnp.resize(x, SHAPE)
        return x
    return f"{'.'.join(names)} {jnp.dtype(dtype).name} {where}", program, data, dtype, SHARDINGS[where]

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
for seed in range(SEED, SEED + PROGRAMS):
    name, program, data, dtype, spec = make(seed)
    x = jnp.asarray(data, dtype)
    if spec is not None:
        x = jax.device_put(x, NamedSharding(mesh, spec))
    result = jax.jit(program)(x)
    print(json.dumps([name, np.asarray(result).astype(np.float64).tolist()]))
"""


def outputs(run, **variables):
    code = RUN_ALL.replace("PROGRAMS", str(PROGRAMS)).replace("SEED", str(SEED))
    return [json.loads(line) for line in run(code, timeout=1800, **variables).splitlines()]


def tolerance(name):
    return {"bfloat16": 0.05, "float16": 0.01, "float32": 1e-4}.get(name.split()[1], 0)


def test_random_programs_equal_native_cpu(run):
    tpu = outputs(run, TPU_ACCELERATOR_TYPE="v5litepod-8")
    cpu = outputs(run, JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_force_host_platform_device_count=8")
    assert len(tpu) == len(cpu) == PROGRAMS
    wrong = []
    for (name, got), (same, want) in zip(tpu, cpu):
        assert name == same
        got, want = np.array(got), np.array(want)
        close = tolerance(name)
        if got.shape != want.shape or not np.allclose(got, want, rtol=close, atol=close,
                                                      equal_nan=True):
            wrong.append(name)
    assert not wrong, f"{len(wrong)} of {PROGRAMS} differ: {wrong}"
    print(f"{PROGRAMS} programs, {len({name for name, _ in tpu})} of them different")
