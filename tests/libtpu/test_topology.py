"""Topologies without devices, and programs compiled for them ahead of time."""
import json

import pytest

DESCRIBE = """
import json, jax
from jax.experimental import topologies
devices = topologies.get_topology_desc({name!r}, "tpu").devices
last = devices[-1]
print(json.dumps([len(devices), last.device_kind, list(last.coords), last.core_on_chip]))
"""


@pytest.mark.parametrize("name, count, kind, coords, core", [
    ("v5e:2x2", 4, "TPU v5 lite", [1, 1, 0], 0), ("v5e:4x8", 32, "TPU v5 lite", [3, 7, 0], 0),
    ("v5p:2x2x1", 4, "TPU v5", [1, 1, 0], 0), ("v2:2x2", 8, "TPU v2", [1, 1, 0], 1),
    ("TPU v3:2x2x1", 8, "TPU v3", [1, 1, 0], 1), ("tpu7x:2x2x1", 8, "TPU7x", [1, 1, 0], 1),
    ("v6e:16x16", 256, "TPU v6 lite", [15, 15, 0], 0), ("v4-16", 8, "TPU v4", [1, 1, 1], 0),
    ("", 1, "TPU v5 lite", [0, 0, 0], 0),
])
def test_describes_any_topology_of_the_catalogue(run, name, count, kind, coords, core):
    seen = json.loads(run(DESCRIBE.format(name=name), TPU_ACCELERATOR_TYPE="v5litepod-1"))
    assert seen == [count, kind, coords, core]


@pytest.mark.parametrize("name, why", [("v5e:3x3", "no size"), ("v9:2x2", "no TPU generation"),
                                       ("v5e", "invalid"), ("v5e:2", "not a topology")])
def test_says_what_is_no_topology(run, name, why):
    error = run(DESCRIBE.format(name=name), fails=True)
    assert "INVALID_ARGUMENT" in error and why in error and "2x2" in error


def test_compiles_ahead_of_time_for_chips_that_are_not_there(run):
    run("""
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding
topology = topologies.get_topology_desc("v5e:4x4", "tpu")
mesh = Mesh(np.array(topology.devices).reshape(16), "x")
def shaped(shape, *spec): return jax.ShapeDtypeStruct(shape, jnp.float32,
                                                      sharding=NamedSharding(mesh, P(*spec)))
program = jax.jit(lambda a, b: a @ b).lower(shaped((1600, 512), "x"), shaped((512, 256))).compile()
assert program.cost_analysis()["flops"] == 2 * 100 * 512 * 256, program.cost_analysis()
assert program.memory_analysis().argument_size_in_bytes == 104 * 512 * 4 + 512 * 256 * 4
one = SingleDeviceSharding(topology.devices[0])
large = jax.ShapeDtypeStruct((2**32,), jnp.float32, sharding=one)
try: jax.jit(lambda x: x + 1).lower(large).compile()
except jax.errors.JaxRuntimeError as error: assert "exceeds available HBM (15.75G)" in str(error)
else: raise AssertionError("16 GiB fitted")
assert len(jax.devices()) == 4 and jnp.ones(3).sum() == 3  # the slice itself goes on
""")


def test_exports_for_tpus(run):
    run("""
import jax, jax.numpy as jnp
from jax import export
exported = export.export(jax.jit(jnp.sin), platforms=["tpu"])(jax.ShapeDtypeStruct((4,), "float32"))
assert exported.platforms == ("tpu",)
assert abs(exported.call(jnp.ones(4)) - jnp.sin(1.0)).max() < 1e-6
""")
