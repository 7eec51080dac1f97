"""tpu-info, unmodified, in TPU VMs: chips, who has them, what they hold and how busy they are."""
import json
import re

import pytest

import torus

VERSIONS = "'jax==0.10.2' 'tpu-info==0.14.2'"

# Does what /tmp/phase says, on its first device.
PROGRAM = r"""
import os, time, jax, jax.numpy as jnp
x, big = jnp.ones((600, 600)), None
step = jax.jit(lambda x: x @ x / 600)
step(x).block_until_ready()
while True:
    phase = open("/tmp/phase").read()
    if phase == "hold" and big is None:
        big = jnp.zeros((256, 1024, 1024)).block_until_ready()
    if phase != "hold":
        big = None
    if phase == "busy":
        x = step(x).block_until_ready()
    else:
        time.sleep(0.02)
    open("/tmp/did.new", "w").write(phase)
    os.rename("/tmp/did.new", "/tmp/did")
"""

# What the library says of each device: HBM in use, of how much, and duty cycle.
USAGE = r"""
import json
from tpu_info import device, metrics
chip, count = device.get_local_chips()
print(json.dumps([chip.value.name, count, device.get_chip_owners(),
                  [u[1:] for u in metrics.get_chip_usage(chip)]]))
"""


class Vm:
    """A VM with tpu-info in it, and a JAX program that runs there."""

    def __init__(self, service, name, chips, devices, kind, hbm, files):
        self.service, self.name, self.chips, self.devices = service, name, chips, devices
        self.kind, self.hbm, self.files = kind, hbm, files

    def says(self, command):
        return self.service.says(self.name, command)

    def tpu_info(self, flags=""):
        return self.says(f"COLUMNS=200 PYTHONPATH=/tmp/wheel PATH=$PATH:$HOME/.local/bin tpu-info {flags} 2>&1")

    def library(self):
        return json.loads(self.service.says(self.name, f"python3 -c '{USAGE}'"))

    def phase(self, name):
        self.says(f"printf {name} >/tmp/phase")
        torus.eventually(lambda: self.says("cat /tmp/did") == name, seconds=60, what=name)


@pytest.fixture(scope="module", params=[
    ("v2-8", 4, 8, "v2", "7.48", "/dev/accel"),
    ("v5litepod-8", 8, 8, "v5e", "15.75", "/dev/vfio/"),
], ids=["v2", "v5e"])
def info(local, request):
    accelerator, *facts = request.param
    name = f"info-{facts[2]}"
    local.vm("create", name, f"--accelerator-type={accelerator}", "--version=tpu-ubuntu2204-base")
    local.ssh(name, f"mkdir /tmp/wheel; pip install -q {VERSIONS}", timeout=900)
    # The module that the wheel torus-libtpu brings, but for the library, which the VM has
    local.torus("tpu-vm", "scp", "--recurse", str(torus.ROOT / "packaging/libtpu/libtpu"), f"dev@{name}:/tmp/wheel/",
                "--quiet")
    vm = Vm(local, name, *facts)
    vm.nobody = vm.tpu_info()
    local.python(name, "import sys; open('/tmp/program.py', 'w').write(sys.argv[1])", PROGRAM)
    vm.says("printf rest >/tmp/phase; nohup python3 /tmp/program.py >/tmp/log 2>&1 & echo $! >/tmp/pid")
    torus.eventually(lambda: vm.says("cat /tmp/did || tail -3 /tmp/log") == "rest", seconds=120, what="the program")
    vm.pid = int(vm.says("cat /tmp/pid"))
    yield vm
    local.vm("delete", name, "--quiet")


def test_without_a_process_it_says_what_it_says_of_an_idle_tpu(info):
    assert info.nobody.count(f"TPU {info.kind} chip") == info.chips, info.nobody
    assert "Libtpu metrics unavailable. Is there a framework using the TPU?" in info.nobody
    assert "ERROR fetching" not in info.nobody


def test_it_shows_chips_and_the_process_that_has_them(info):
    shown = info.tpu_info("--process")
    rows = re.findall(rf"({info.files}\d+) +\| (\d+) +\| (\S+)", shown)
    assert rows == [(f"{info.files}{chip}", str(info.pid), "python3") for chip in range(info.chips)], shown
    shown = info.tpu_info()
    assert len(re.findall(rf"/dev/vfio/\d +\| TPU {info.kind} chip +\| {info.devices // info.chips} +\| {info.pid}\b",
                          shown)) == info.chips, shown


def test_it_shows_hbm_as_arrays_come_and_go(info):
    info.phase("rest")
    shown = info.tpu_info("--metric hbm_usage")
    assert shown.count(f"0.00 GiB / {info.hbm} GiB") == info.devices, shown
    info.phase("hold")
    shown = info.tpu_info("--metric hbm_usage")
    assert re.search(rf"\| 0 +\| 1.00 GiB / {info.hbm} GiB", shown), shown
    assert shown.count(f"0.00 GiB / {info.hbm} GiB") == info.devices - 1
    info.phase("rest")
    assert f"1.00 GiB / {info.hbm} GiB" not in info.tpu_info("--metric hbm_usage")


def test_it_shows_who_is_busy(info):
    info.phase("busy")
    def duty():
        shown = info.tpu_info("--metric duty_cycle_percent")
        percents = [float(n) for n in re.findall(r"\| \d+ +\| (\d+\.\d+)%", shown)]
        assert len(percents) == info.chips, shown
        return percents
    torus.eventually(lambda: (now := duty())[0] > 10 and max(now[1:]) == 0, seconds=60, what="a busy first chip")
    info.phase("rest")
    torus.eventually(lambda: duty() == [0] * info.chips, seconds=60, what="an idle TPU")


def test_the_library_says_the_same(info):
    info.phase("hold")
    kind, count, owners, usage = info.library()
    assert (kind, count) == (info.kind, info.chips)
    assert {owner for path, owner in owners.items() if path.startswith(info.files)} == {info.pid}
    assert len(usage) == info.devices
    assert usage[0][0] >= 2**30 > usage[1][0] and usage[0][1] > 7 * 2**30
    info.phase("rest")


def test_every_metric_of_the_runtime_is_shown(info):
    for metric in ("hlo_queue_size", "hlo_exec_timing", "runtime_hbm_utilization", "tensorcore_idle_duration",
                   "core_state", "sequencer_state", "queued_programs"):
        shown = info.tpu_info(f"--metric {metric}")
        assert "ERROR" not in shown and "WARNING" not in shown and "N/A" not in shown, shown
    # Of transfers between slices, of which there are none
    shown = info.tpu_info("--metric buffer_transfer_latency")
    assert "Did you start a MULTI_SLICE workload" in re.sub(r"\s+", " ", shown) and "ERROR" not in shown, shown


def test_libtpus_sdk_of_the_wheel_reads_the_same(info):
    info.phase("hold")
    used = info.says("PYTHONPATH=/tmp/wheel python3 -c 'from libtpu.sdk import tpumonitoring as t; "
                     "print(*t.get_metric(\"hbm_capacity_usage\").data())'")
    assert len(used.split()) == info.devices and int(used.split()[0]) >= 2**30, used
    info.phase("rest")
    shown = info.tpu_info("--metric tensorcore_utilization")
    assert len(re.findall(r"\| \d+ +\| \d+\.\d\d%", shown)) == info.devices, shown


def test_what_it_wrote_is_gone_when_it_is_killed(info):
    """The last of this VM's: its program ends here."""
    info.says(f"kill -KILL {info.pid}")
    torus.eventually(lambda: "Libtpu metrics unavailable" in info.tpu_info("--metric hbm_usage"), seconds=20,
                     what="the end of its metrics")
