"""What a process's libtpu.so shows of itself while it runs: the counters' page, read by libtpu.sdk of the wheel."""
import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest

SDK = pathlib.Path(__file__).resolve().parents[2] / "packaging/libtpu"


@pytest.fixture
def counted(run, tmp_path):
    """counted(code, ...) runs code that may import libtpu.sdk; its pages are in tmp_path."""
    def counted(code, **variables):
        variables = {"TPU_ACCELERATOR_TYPE": "v5litepod-4"} | variables
        return run(code, PYTHONPATH=str(SDK), TORUS_COUNTERS=str(tmp_path), **variables)
    return counted


def test_hbm_use_follows_arrays(counted):
    assert counted("""
        import jax, jax.numpy as jnp
        from libtpu.sdk import tpumonitoring
        usage = lambda: [int(n) for n in tpumonitoring.get_metric("hbm_capacity_usage").data()]
        assert usage() == []
        devices = jax.devices()
        assert usage() == [0, 0, 0, 0], usage()
        x = jax.device_put(jnp.zeros((1024, 1024)), devices[2]).block_until_ready()
        print(usage()[2] >> 20, max(usage()[3:]))
        del x
        print(usage()[2])
        print(set(tpumonitoring.get_metric("hbm_capacity_total").data()))
    """).split("\n")[:3] == ["4 0", "0", "{'16911433728'}"]


BUSY = """
    import threading, time, jax, jax.numpy as jnp
    from libtpu.sdk import tpumonitoring

    def numbers(name): return [float(n) for n in tpumonitoring.get_metric(name).data()]

    def eventually(name, holds):  # a machine with much else to do may not get to the work at once
        end = time.monotonic() + 60
        while not holds(seen := numbers(name)):
            assert time.monotonic() < end, (name, seen)
            time.sleep(0.3)

    x = jax.device_put(jnp.ones((700, 700)), jax.devices()[1])
    step = jax.jit(lambda x: x @ x / 700)
    step(x).block_until_ready()
    over = False
    def work():
        y = x
        while not over: y = step(y).block_until_ready()
    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    eventually("duty_cycle_pct", lambda duty: duty[1] > 30 and duty[:1] + duty[2:] == [0] * 3)
    eventually("tensorcore_util", lambda duty: duty[1] > 30)
    eventually("idle_duration", lambda idle: idle[1] < 0.2 < min(idle[:1] + idle[2:]))
    over = True
    worker.join()
    eventually("duty_cycle_pct", lambda duty: duty == [0] * 4)
    assert set(tpumonitoring.get_metric("hlo_queue_size").data()) == \\
        {f"{n}-TPU_CORE_TYPE_TENSOR_CORE: 0" for n in range(4)}
    timing = tpumonitoring.get_metric("hlo_execution_timing").data()[1].split(", ")
    assert timing[0] == "1-TPU_CORE_TYPE_TENSOR_CORE" and 100 < float(timing[2]) <= float(timing[5]), timing
"""


def test_a_chip_is_busy_while_programs_run_on_it_and_idle_after(counted):
    counted(BUSY)


def test_every_run_counts_also_a_tiny_one_and_one_of_many_devices(counted):
    assert counted("""
        import time, jax, jax.numpy as jnp
        from jax.sharding import NamedSharding, PartitionSpec
        from libtpu.sdk import counters
        runs = lambda: [d.runs for d in counters.look().devices.values()]
        x = jnp.ones(4)
        tiny = jax.jit(lambda x: x + 1)
        tiny(x).block_until_ready()
        begin = runs()
        for _ in range(130): x = tiny(x)
        x.block_until_ready()
        print(runs()[0] - begin[0])
        mesh = jax.make_mesh((4,), ("x",))
        y = jax.device_put(jnp.ones((512, 512)), NamedSharding(mesh, PartitionSpec("x")))
        many = jax.jit(lambda y: (y @ y).sum())
        def settled():  # a device may end a moment after the one that is waited for
            while any(d.running for d in counters.look().devices.values()): time.sleep(0.01)
            return runs()
        many(y).block_until_ready()
        begin = settled()
        for _ in range(3): many(y).block_until_ready()
        print([a - b for a, b in zip(settled(), begin)])
    """) == "130\n[3, 3, 3, 3]\n"


def test_chips_are_numbered_as_in_the_slice(counted):
    assert counted("""
        import jax
        from libtpu.sdk import counters
        jax.devices()
        print(list(counters.look().devices))
    """, TPU_ACCELERATOR_TYPE="v2-8", TPU_VISIBLE_CHIPS="1,3") == "[2, 3, 6, 7]\n"


def test_duty_cycles_are_of_chips_and_memory_of_cores(counted):
    assert counted("""
        import jax
        from libtpu.sdk import tpumonitoring
        jax.devices()
        print(*(len(tpumonitoring.get_metric(n).data()) for n in ("duty_cycle_pct", "hbm_capacity_total")))
    """, TPU_ACCELERATOR_TYPE="v2-8") == "4 8\n"


def test_a_killed_process_leaves_nothing_that_counts(counted, environment, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", "import jax; jax.devices(); print('ready', flush=True); input()"], text=True,
        env=environment | {"TORUS_COUNTERS": str(tmp_path)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    left = os.listdir(tmp_path)
    assert len(left) == 1 and left[0].startswith(f"{process.pid}-")
    assert counted("""
        import jax
        from libtpu.sdk import counters
        print(counters.look().devices)
        jax.devices()
    """) == "{}\n"
    assert left[0] not in os.listdir(tmp_path), "the next process has removed it"


def test_a_folder_that_cannot_be_written_stops_nobody(run):
    assert run("import jax; print(jax.numpy.ones(3).sum())", TORUS_COUNTERS="/proc/none") == "3.0\n"


def test_pages_outside_a_vm_are_their_users_alone(run, tmp_path):
    code = textwrap.dedent("""
        import jax, os
        jax.devices()
        folder = os.environ["XDG_RUNTIME_DIR"] + "/torus-counters"
        print(oct(os.stat(folder).st_mode & 0o777) if os.path.isdir(folder) else None, len(os.listdir(folder)))
    """)
    if os.path.isdir("/run/torus-counters"):
        pytest.skip("this is a TPU VM")
    assert run(code, XDG_RUNTIME_DIR=str(tmp_path)) == "0o700 1\n"


def test_the_sdk_has_libtpus_names(counted):
    """Those of libtpu 0.0.52 but for what Orbax and Grain count."""
    counted("""
        from libtpu.sdk import tpumonitoring
        import libtpu
        names = tpumonitoring.list_supported_metrics()
        assert {"tensorcore_util", "hbm_util", "duty_cycle_pct", "hbm_capacity_total", "hbm_capacity_usage",
                "hlo_execution_timing", "hlo_queue_size", "buffer_transfer_latency", "idle_duration",
                "runtime_hbm_utilization", "ici_link_health", "tpu_throttle_score"} <= set(names)
        for name in names + ["nonsense"]:
            assert tpumonitoring.get_metric(name).data() == [], name
        assert tpumonitoring.get_metric("duty_cycle_pct").description()
        assert libtpu.__version__
    """)
