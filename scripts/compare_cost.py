#!/usr/bin/env python3
"""Compares what programs cost by libtpu.so and by Google's, ahead of time and without a TPU.

    scripts/compare_cost.py [--ours build/release/libtpu.so] [--real PATH] [--type v5litepod-4]

Prints two tables in Markdown, theirs and ours over theirs: flops, bytes and time of each of 30
programs, and the HBM that training steps take with their arguments, results and temporaries. --real names the libtpu.so of a package `libtpu` that you installed under its own licence
(default: the one that Python finds); without one there is nothing to compare, which is said, and
the exit code is 0. The exit code is 1 where more than --allow programs are out of bounds: flops
within 10 %, bytes and time within 2x. Run with a Python that has tests/requirements.txt.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOPOLOGIES = {"v5litepod-4": "v5e:2x2", "v5p-8": "v5p:2x2x1", "v6e-4": "v6e:2x2"}


def programs():
    """Name, function, shapes and types of its arguments."""
    import jax
    import jax.numpy as jnp
    f32, bf16, s32, c64 = jnp.float32, jnp.bfloat16, jnp.int32, jnp.complex64
    square = ((2048, 2048), f32)
    conv = dict(window_strides=(1, 1), padding="SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def mlp(x, a, b):
        return jnp.sum(jax.nn.relu(x @ a) @ b)

    def attention(q, k, v):
        return jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k)) @ v.transpose(0, 2, 1, 3)

    def norm(x, g):
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g

    def scan(x):
        return jax.lax.scan(lambda c, _: (jnp.tanh(c @ c), None), x, None, length=10)[0]

    layer = [((512, 1024), f32), ((1024, 4096), f32), ((4096, 1024), f32)]
    heads = ((4, 256, 8, 64), f32)
    return [
        ("add", lambda a, b: a + b, [square] * 2), ("multiply-add", lambda a, b, c: a * b + c, [square] * 3),
        ("divide", lambda a, b: a / b, [square] * 2), ("integers", lambda a: a * 3 + 1, [((2048, 2048), s32)]),
        ("maximum", jnp.maximum, [square] * 2), ("compare-select", lambda a, b: jnp.where(a > b, a, b), [square] * 2),
        ("tanh", jnp.tanh, [square]), ("exp", lambda a: jnp.exp(a) * 2 + 1, [square]),
        ("sigmoid", jax.nn.sigmoid, [square]), ("sqrt", jnp.sqrt, [square]),
        ("sum", jnp.sum, [square]), ("sum of rows", lambda a: a.sum(1), [square]),
        ("maximum of columns", lambda a: a.max(0), [square]), ("softmax", jax.nn.softmax, [square]),
        ("layer norm", norm, [square, ((2048,), f32)]), ("transpose", lambda a: a.T + 1, [square]),
        ("matmul", lambda a, b: a @ b, [((1024, 512), f32), ((512, 256), f32)]),
        ("matmul square", lambda a, b: a @ b, [square] * 2),
        ("matmul bf16", lambda a, b: a @ b, [((4096, 4096), bf16)] * 2),
        ("matmul batched", lambda a, b: a @ b, [((16, 512, 256), f32), ((16, 256, 512), f32)]),
        ("matmul vector", lambda a, b: a @ b, [square, ((2048,), f32)]),
        ("conv 3x3", lambda x, w: jax.lax.conv_general_dilated(x, w, **conv), [((32, 56, 56, 64), f32), ((3, 3, 64, 128), f32)]),
        ("conv 1x1", lambda x, w: jax.lax.conv_general_dilated(x, w, **conv), [((32, 28, 28, 256), f32), ((1, 1, 256, 512), f32)]),
        ("conv bf16", lambda x, w: jax.lax.conv_general_dilated(x, w, **conv), [((64, 28, 28, 128), bf16), ((3, 3, 128, 128), bf16)]),
        ("mlp", mlp, layer), ("mlp's gradient", jax.grad(mlp, (1, 2)), layer),
        ("attention", attention, [heads] * 3), ("scan", scan, [((512, 512), f32)]),
        ("gather", lambda a, i: a[i], [((10000, 128), f32), ((4096,), s32)]),
        ("sort", jnp.sort, [((1 << 20,), f32)]),
    ]


def training():
    """Name, loss, shapes and types of its parameters and of its data."""
    import jax
    import jax.numpy as jnp
    f32, bf16 = jnp.float32, jnp.bfloat16
    relu = jax.nn.relu

    def conv(x, w, stride=1):
        return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME",
                                            dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def pool(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def mlp(p, x, y):
        return jnp.mean((relu(relu(x @ p[0]) @ p[1]) @ p[2] - y) ** 2)

    def cnn(p, x, y):
        h = pool(relu(conv(pool(relu(conv(x, p[0]))), p[1])))
        logits = relu(h.reshape(h.shape[0], -1) @ p[2]) @ p[3]
        return -jnp.mean(jnp.sum(jax.nn.one_hot(y, 10) * jax.nn.log_softmax(logits), -1))

    def convolutions(p, x):
        return jnp.mean(relu(conv(relu(conv(relu(conv(x, p[0], 2)), p[1])), p[2])) ** 2)

    def layer(x, w):
        q, k, v = (jnp.einsum("btd,dhk->bthk", x, w[i]) for i in range(3))
        a = jax.nn.softmax(jnp.einsum("bthk,bshk->bhts", q, k) / 8)
        x = x + jnp.einsum("bthk,hkd->btd", jnp.einsum("bhts,bshk->bthk", a, v), w[3])
        return x + jax.nn.gelu(x @ w[4]) @ w[5]

    def transformer(p, x):
        for w in p:
            x = layer(x, w)
        return jnp.mean(x.astype(f32) ** 2)

    def scanned(p, x):
        return jnp.mean(jax.lax.scan(lambda x, w: (layer(x, w), None), x, p)[0].astype(f32) ** 2)

    def weights(kind, *layers):
        dims = [(512, 8, 64)] * 3 + [(8, 64, 512), (512, 2048), (2048, 512)]
        return [(layers + d, kind) for d in dims]

    kernels = [((3, 3, 1, 32), f32), ((3, 3, 32, 64), f32), ((3136, 256), f32), ((256, 10), f32)]
    tokens = (8, 512, 512)
    return [
        ("MLP", mlp, [((1024, 4096), f32), ((4096, 4096), f32), ((4096, 1024), f32)], [((2048, 1024), f32)] * 2),
        ("CNN, batch 256", cnn, kernels, [((256, 28, 28, 1), f32), ((256,), jnp.int32)]),
        ("CNN, batch 4096", cnn, kernels, [((4096, 28, 28, 1), f32), ((4096,), jnp.int32)]),
        ("convolutions of 224x224", convolutions,
         [((7, 7, 3, 64), f32), ((3, 3, 64, 64), f32), ((3, 3, 64, 64), f32)], [((64, 224, 224, 3), f32)]),
        ("transformer, 4 layers, f32", transformer, [weights(f32)] * 4, [(tokens, f32)]),
        ("transformer, 4 layers, bf16", transformer, [weights(bf16)] * 4, [(tokens, bf16)]),
        ("transformer, scan over 8 layers, bf16", scanned, weights(bf16, 8), [(tokens, bf16)]),
    ]


def measure(topology):
    """Prints what each program costs on the topology, as JSON."""
    import jax
    from jax.experimental import topologies
    device = topologies.get_topology_desc(topology, "tpu").devices[0]
    sharding = jax.sharding.SingleDeviceSharding(device)

    def shaped(shapes):
        is_shape = lambda each: isinstance(each, tuple)
        return jax.tree.map(lambda each: jax.ShapeDtypeStruct(*each, sharding=sharding), shapes, is_leaf=is_shape)

    costs = {}
    for name, function, shapes in programs():
        cost = jax.jit(function).lower(*shaped(shapes)).compile().cost_analysis()
        costs[name] = [cost.get(key, 0) for key in ("flops", "bytes accessed", "optimal_seconds")]
    memory = {}
    for name, loss, parameters, data in training():
        def step(p, *data):
            value, gradient = jax.value_and_grad(loss)(p, *data)
            return jax.tree.map(lambda w, d: w - 0.1 * d, p, gradient), value
        stats = jax.jit(step, donate_argnums=0).lower(shaped(parameters), *shaped(data)).compile().memory_analysis()
        memory[name] = [stats.argument_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes,
                        stats.temp_size_in_bytes]
    print(json.dumps({"costs": costs, "memory": memory}))


def costs_by(library, accelerator):
    variables = {"TPU_LIBRARY_PATH": str(library), "TPU_ACCELERATOR_TYPE": accelerator, "JAX_PLATFORMS": "cpu",
                 "TPU_SKIP_MDS_QUERY": "1", "TPU_WORKER_HOSTNAMES": "localhost"}
    done = subprocess.run([sys.executable, __file__, "--measure", TOPOLOGIES[accelerator]], check=True,
                          env=os.environ | variables, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def ratio(ours, theirs):
    return ours / theirs if theirs else (1.0 if not ours else float("inf"))


def microseconds(seconds):
    return f"{seconds * 1e6:.1f} us" if seconds >= 0 else "unknown"


def table(ours, real):
    """The lines of the table, and how many programs are out of bounds."""
    lines = ["| program | flops | ours | bytes | ours | time | ours |", "|-|-|-|-|-|-|-|"]
    outside = 0
    for name, theirs in real.items():
        flops, moved, time = (ratio(o, t) for o, t in zip(ours[name], theirs))
        if theirs[2] < 0:  # it adds -1 where it knows no time
            time = 1.0
        within = 0.9 <= flops <= 1.1 and 0.5 <= moved <= 2 and 0.5 <= time <= 2
        outside += not within
        lines.append(f"| {name}{'' if within else ' *'} | {theirs[0]:.3g} | {flops:.2f}x | {theirs[1]:.3g} "
                     f"| {moved:.2f}x | {microseconds(theirs[2])} | {time:.2f}x |")
    return lines, outside


def memory_table(ours, real):
    lines = ["| training step | arguments and results | ours | temporaries | all | ours |", "|-|-|-|-|-|-|"]
    for name, (held, temporaries) in real.items():
        lines.append(f"| {name} | {held / 2**20:.1f} MiB | {ratio(ours[name][0], held):.2f}x | {temporaries / 2**20:.1f} MiB "
                     f"| {(held + temporaries) / 2**20:.1f} MiB | {ratio(sum(ours[name]), held + temporaries):.2f}x |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", default=ROOT / "build/release/libtpu.so", type=pathlib.Path)
    parser.add_argument("--real", type=pathlib.Path)
    parser.add_argument("--type", default="v5litepod-4", choices=TOPOLOGIES)
    parser.add_argument("--allow", default=0, type=int, help="programs that may be out of bounds")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        return measure(options.measure)
    if options.real is None:
        found = importlib.util.find_spec("libtpu")
        options.real = pathlib.Path(found.origin).with_name("libtpu.so") if found and found.origin else None
    if options.real is None or not options.real.exists():
        print("SKIPPED: no libtpu of Google's to compare with; pip install libtpu, or name it with --real")
        return 0
    ours, real = costs_by(options.ours.resolve(), options.type), costs_by(options.real, options.type)
    lines, outside = table(ours["costs"], real["costs"])
    print("\n".join(memory_table(ours["memory"], real["memory"])) + "\n")
    print("\n".join(lines))
    print(f"\n{len(lines) - 2 - outside} of {len(lines) - 2} programs within bounds; * is out of them.")
    return int(outside > options.allow)


if __name__ == "__main__":
    sys.exit(main())
