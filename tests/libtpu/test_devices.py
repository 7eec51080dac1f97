"""What a program sees of the slice."""
import json

import pytest

SHOW = """
import jax, json
devices = jax.devices()
first, last = devices[0], devices[-1]
print(json.dumps({
    "count": len(devices), "local": jax.local_device_count(), "kind": first.device_kind,
    "platform": {d.platform for d in devices}.pop(), "process": jax.process_index(),
    "coords": [list(first.coords), list(last.coords)], "core": last.core_on_chip,
    "cores": first.num_cores, "slice": last.slice_index, "text": [str(last), repr(last)],
    "limit": first.memory_stats()["bytes_limit"],
    "version": first.client.platform_version, "distinct": len({
        (*d.coords, d.core_on_chip) for d in devices}),
}))
"""
GIB = 2**30

# type, devices, kind, cores a device, the last device's coords and core, HBM that XLA may use
SLICES = [
    ("v2-8", 8, "TPU v2", 1, [1, 1, 0], 1, 7.48),
    ("v3-8", 8, "TPU v3", 1, [1, 1, 0], 1, 15.48),
    ("v4-8", 4, "TPU v4", 2, [1, 1, 0], 0, 30.75),
    ("v5litepod-8", 8, "TPU v5 lite", 1, [1, 3, 0], 0, 15.75),
    ("v5p-8", 4, "TPU v5", 2, [1, 1, 0], 0, 95.73),
    ("v6e-8", 8, "TPU v6 lite", 1, [1, 3, 0], 0, 31.24),
    ("v4-64", 32, "TPU v4", 2, [1, 3, 3], 0, 30.75),
]


@pytest.mark.parametrize("name, count, kind, cores, coords, core, hbm", SLICES)
def test_shows_the_slice_as_upstream_does(run, name, count, kind, cores, coords, core, hbm):
    seen = json.loads(run(SHOW, TPU_ACCELERATOR_TYPE=name))
    assert seen["count"] == seen["local"] == seen["distinct"] == count
    assert (seen["platform"], seen["kind"], seen["process"]) == ("tpu", kind, 0)
    assert seen["coords"] == [[0, 0, 0], coords]
    assert (seen["core"], seen["cores"], seen["slice"]) == (core, cores, 0)
    x, y, z = coords
    assert seen["text"] == [
        f"TPU_{count - 1}(process=0,({x},{y},{z},{core}))",
        f"TpuDevice(id={count - 1}, process_index=0, coords=({x},{y},{z}), core_on_chip={core})",
    ]
    assert seen["limit"] == pytest.approx(hbm * GIB, rel=1e-3)
    assert "Torus" in seen["version"] and f"TFRT {kind}" in seen["version"]
    assert seen["version"].count("PJRT C API") == 1  # jaxlib adds it; we must not


def test_is_a_v4_8_where_nothing_is_said(run):
    assert json.loads(run(SHOW))["kind"] == "TPU v4"


def test_reads_the_workers_description(run, tmp_path):
    file = tmp_path / "slice"
    file.write_text("ACCELERATOR_TYPE: 'v2-8'\nNODE_ID: 'my-first-tpu'\nNEWER: 'x'\n")
    seen = json.loads(run(SHOW, TORUS_SLICE=str(file), TPU_ACCELERATOR_TYPE="v4-8"))
    assert (seen["kind"], seen["count"]) == ("TPU v2", 8)


def test_jax_finds_it_without_being_told_the_platform(run):
    assert run("import jax; print(jax.default_backend())", JAX_PLATFORMS="") == "tpu\n"
