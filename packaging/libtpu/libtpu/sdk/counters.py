"""Reads the counters' pages that each process's libtpu.so writes. Layout: src/slice/counters.h of Torus."""
import dataclasses
import os
import pathlib
import struct
import time

HEADER = struct.Struct("<8sIIIIqQIId32s128sq")
TIMING_BUCKETS = 32
DEVICE = struct.Struct(f"<ii10q{TIMING_BUCKETS}q")
VERSION = 1


@dataclasses.dataclass
class Device:
    """What one device's counters say, of all processes together. Nanoseconds and bytes."""
    chip: int
    core: int
    hbm_total: int
    hbm_in_use: int
    hbm_peak: int
    running: int
    busy: int
    idle: int
    runs: int
    traffic: int
    run_time: int
    timing: list

    def add(self, other: "Device") -> None:
        self.hbm_total = max(self.hbm_total, other.hbm_total)
        self.idle = min(self.idle, other.idle)
        for name in ("hbm_in_use", "hbm_peak", "running", "busy", "runs", "traffic", "run_time"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.timing = [a + b for a, b in zip(self.timing, other.timing)]


@dataclasses.dataclass
class Sample:
    """All devices that some process has, by their number on this host, at one time."""
    at: int
    devices: dict
    devices_per_chip: int = 1
    duty_cycles_per_chip: int = 1
    hbm_bandwidth: float = 0.0


def folder() -> pathlib.Path:
    """Where the pages are; as libtpu.so chooses."""
    named = os.environ.get("TORUS_COUNTERS")
    if named:
        return pathlib.Path(named)
    in_vm = pathlib.Path("/run/torus-counters")
    if in_vm.is_dir():
        return in_vm
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return pathlib.Path(runtime, "torus-counters") if runtime else \
        pathlib.Path(f"/tmp/torus-counters-{os.geteuid()}")


def _lives(name: str) -> bool:
    """Whether the process that a page is named after is still that one."""
    pid, start, _ = name.split("-")
    fields = pathlib.Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
    return fields[0] not in "ZX" and fields[19] == start


def _device(fields, now: int) -> Device:
    chip, core, total, in_use, peak, runs, last_run, running, busy_since, busy, traffic, run_time = fields[:12]
    if running > 0:
        busy += max(0, now - busy_since)
    return Device(chip, core, total, in_use, peak, running, busy, 0 if running > 0 else max(0, now - last_run),
                  runs, traffic, run_time, list(fields[12:]))


def _read(page: bytes, sample: Sample) -> None:
    (magic, version, header_bytes, device_bytes, count, _, _, per_chip, duty_cycles, bandwidth, _, _,
     _) = HEADER.unpack_from(page)
    if magic != b"TORUSCTR" or version != VERSION:
        return
    sample.devices_per_chip, sample.duty_cycles_per_chip = per_chip, duty_cycles
    sample.hbm_bandwidth = bandwidth
    for d in range(count):
        device = _device(DEVICE.unpack_from(page, header_bytes + d * device_bytes), sample.at)
        number = device.chip * per_chip + device.core
        if number in sample.devices:
            sample.devices[number].add(device)
        else:
            sample.devices[number] = device


def look() -> Sample:
    """What all living processes' pages say now."""
    sample = Sample(time.monotonic_ns(), {})
    try:
        names = sorted(os.listdir(folder()))
    except OSError:
        names = []
    for name in names:
        try:
            if _lives(name):
                _read((folder() / name).read_bytes(), sample)
        except (OSError, ValueError, IndexError, struct.error):
            pass  # no page, or one that has gone meanwhile
    sample.devices = dict(sorted(sample.devices.items()))
    return sample
