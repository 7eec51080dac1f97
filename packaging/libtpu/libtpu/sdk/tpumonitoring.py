"""Metrics of the TPU by the names of libtpu's SDK: list_supported_metrics(), get_metric(name).data().

Values are lists of strings, formatted as libtpu's. Where no process uses the TPU they are empty; so are
those of what a software TPU does not have: links between chips, throttling, transfers between slices.
"""
import threading
import time

from libtpu.sdk import counters

_SHORTEST, _LONGEST = 250_000_000, 10_000_000_000  # nanoseconds that a rate is taken over
_lock = threading.Lock()
_before = _last = None


def _window():
    """Two looks at the counters that are a while apart; the first is an earlier call's, if there was one."""
    global _before, _last
    with _lock:
        now = counters.look()
        if _last is not None and now.at - _last.at < _SHORTEST:
            return _before, now
        if _last is None or now.at - _last.at > _LONGEST:
            _last = now
            time.sleep(_SHORTEST / 1e9)
            now = counters.look()
        _before, _last = _last, now
        return _before, now


def _rates(name):
    """By device: how much a counter grew a second."""
    before, now = _window()
    rates = {}
    for number, device in now.devices.items():
        then = getattr(before.devices[number], name) if number in before.devices else 0
        rates[number] = max(0, getattr(device, name) - then) / max(1e-9, (now.at - before.at) / 1e9)
    return now, rates


def _percent(part, whole):
    return f"{100 * min(1.0, part / whole) if whole > 0 else 0:.2f}"


def _busy_of_cores():
    return [_percent(rate, 1e9) for rate in _rates("busy")[1].values()]


def _duty_cycles():
    now, rates = _rates("busy")
    cores = max(1, now.devices_per_chip // max(1, now.duty_cycles_per_chip))
    duty = {}
    for number, rate in rates.items():
        duty[number // cores] = max(rate, duty.get(number // cores, 0))
    return [_percent(rate, 1e9) for rate in duty.values()]


def _bandwidth():
    now, rates = _rates("traffic")
    return [_percent(rate, now.hbm_bandwidth) for rate in rates.values()]


def _each(format_device):
    return [format_device(number, device) for number, device in counters.look().devices.items()]


def _core(number):
    return f"{number}-TPU_CORE_TYPE_TENSOR_CORE"


def _percentile(timing, share):
    """Microseconds under which this share of the runs took, as if evenly spread in their bucket."""
    rank = int(sum(timing) * share)
    for bucket, count in enumerate(timing):
        if count and rank <= count:
            low = 0 if bucket == 0 else 2 ** (bucket - 1)
            return low + (2**bucket - low) * rank / count
        rank -= count
    return 0.0


def _timing(number, device):
    count = sum(device.timing)
    mean = device.run_time / 1000 / count if count else 0.0
    values = [mean] + [_percentile(device.timing, share) for share in (0.5, 0.9, 0.95, 0.999)]
    return ", ".join([_core(number)] + [f"{value:.2f}" for value in values])


def _nothing():
    return []


_METRICS = {
    "tensorcore_util": ("Percentage of the time in which a program ran on each core.", _busy_of_cores),
    "hbm_util": ("Percentage of the bandwidth of each device's HBM that programs used.", _bandwidth),
    "duty_cycle_pct": ("Percentage of the time in which a program ran on each chip.", _duty_cycles),
    "hbm_capacity_total": ("HBM of each device, bytes.", lambda: _each(lambda _, d: str(d.hbm_total))),
    "hbm_capacity_usage": ("HBM of each device that is in use, bytes.", lambda: _each(lambda _, d: str(d.hbm_in_use))),
    "hlo_execution_timing": ("Microseconds that programs took: core, mean, p50, p90, p95, p999.",
                             lambda: _each(_timing)),
    "hlo_queue_size": ("Programs given to each core that have not ended.",
                       lambda: _each(lambda n, d: f"{_core(n)}: {d.running}")),
    "runtime_hbm_utilization": ("As hbm_util.", _bandwidth),
    "idle_duration": ("Seconds since a program last ran on each device.",
                      lambda: _each(lambda _, d: f"{d.idle / 1e9:.2f}")),
} | {name: ("Not there on a software TPU: always empty.", _nothing)
     for name in ("ici_link_health", "tpu_throttle_score", "buffer_transfer_latency",
                  "inbound_buffer_transfer_latency", "collective_e2e_latency", "tcp_min_rtt", "tcp_delivery_rate",
                  "host_to_device_transfer_latency", "device_to_host_transfer_latency", "host_compute_latency")}


class LibtpuSdkMetric:
    """One metric: what it means, and its value when it was asked for."""

    def __init__(self, name: str):
        self._description, read = _METRICS.get(name, ("", _nothing))
        self._data = read()

    def description(self) -> str:
        return self._description

    def data(self) -> list:
        return self._data


def list_supported_metrics() -> list:
    """The names that get_metric takes."""
    return list(_METRICS)


def get_metric(metric_name: str) -> LibtpuSdkMetric:
    """The metric of this name, now. One that does not exist has no data, as libtpu has it."""
    return LibtpuSdkMetric(metric_name)


def help() -> None:  # pylint: disable=redefined-builtin
    """Prints what there is."""
    print("list_supported_metrics() -> list of names\nget_metric(name) -> description() and data()\n")
    for name, (description, _) in _METRICS.items():
        print(f"{name}: {description}")
