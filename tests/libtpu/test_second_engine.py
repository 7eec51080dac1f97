"""The second engine, of another supplier and an older PJRT, passes the smoke tests."""
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENGINE = ROOT / "build/deps/engine_openxla/xla_cpu_pjrt.so"


@pytest.mark.skipif(not ENGINE.exists(), reason="scripts/deps.sh did not fetch the second engine")
def test_the_second_engine_runs_programs(environment):
    done = subprocess.run([sys.executable, str(ROOT / "tests/conformance/skew_smoke.py")],
                          env=environment | {"TORUS_ENGINE": str(ENGINE),
                                             "TPU_ACCELERATOR_TYPE": "v5litepod-8"},
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "works\n"
