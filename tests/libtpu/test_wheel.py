"""The wheel torus-libtpu: installed beside JAX it is all that is needed, and it loads on old systems."""
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEELS = list((ROOT / "build/wheel/dist").glob("*.whl"))
pytestmark = pytest.mark.skipif(not WHEELS, reason="no wheel: scripts/wheel.sh makes it")

OLDEST = (2, 31)  # glibc of the images that the frameworks of 2020 and 2021 run on


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the wheel's module in it and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder,
                    WHEELS[0]], check=True)
    return folder


def test_jax_finds_the_tpu_with_nothing_set(installed):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TPU_", "TORUS_", "JAX_", "PJRT_"))}
    done = subprocess.run(
        [sys.executable, "-c", "import jax; d = jax.devices(); print(d[0].platform, len(d), jax.numpy.ones(8).sum())"],
        capture_output=True, text=True, env=clean | {"PYTHONPATH": str(installed), "HOME": str(installed)})
    assert done.stdout.split() == ["tpu", "4", "8.0"], done.stderr
    assert "warn" not in done.stderr.lower(), done.stderr


@pytest.mark.parametrize("library", ["libtpu.so", "torus-verify", "engine/xla_cpu.so"])
def test_it_needs_no_newer_glibc(installed, library):
    versions = subprocess.run(["readelf", "-V", installed / "libtpu" / library], capture_output=True,
                              text=True, check=True).stdout
    needed = max(tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+\.\d+)", versions))
    assert needed <= OLDEST


def test_it_has_libtpus_sdk(installed):
    code = "from libtpu import sdk; print(sdk.tpumonitoring.get_metric('nonsense').data())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env=os.environ | {"PYTHONPATH": str(installed)}).stdout == "[]\n"


def test_torus_verify_runs_from_it(installed):
    """Torus's own library stands in for Google's."""
    done = subprocess.run(
        [sys.executable, "-c", "import jax; print(jax.jit(lambda x: x @ x)(jax.numpy.ones((4, 4))).sum())"],
        capture_output=True, text=True, env=os.environ | {
            "PYTHONPATH": str(installed), "TPU_LIBRARY_PATH": str(installed / "libtpu/libtpu.so"),
            "JAX_PLATFORMS": "tpu", "TORUS_VERIFY_WITH": str(installed / "libtpu/libtpu.so")})
    assert done.stdout == "64.0\n", done.stderr
    assert "torus-verify: jit__lambda compiles for a real TPU v4" in done.stderr, done.stderr


def test_licences_lie_beside_the_engine(installed):
    assert {"LICENSE", "THIRD_PARTY_NOTICES"} <= {p.name for p in (installed / "libtpu/engine").iterdir()}


# PJRT by ctypes, for a system whose Python is too old for any JAX: opens the library and makes a client.
OPEN = textwrap.dedent("""
    import ctypes, sys
    library = ctypes.CDLL(sys.argv[1])
    library.GetPjrtApi.restype = ctypes.POINTER(ctypes.c_void_p)
    table = library.GetPjrtApi()
    function = lambda at: ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(table[at])
    FIRST, INITIALIZE, CLIENT_CREATE, CLIENT = 5, 3, 10, 8  # places in PJRT_Api, and in the arguments
    nothing = (ctypes.c_void_p * 2)(16)
    assert not function(FIRST + INITIALIZE)(nothing)
    arguments = (ctypes.c_void_p * 11)(88)
    error = function(FIRST + CLIENT_CREATE)(arguments)
    print("client" if arguments[CLIENT] and not error else "error")
""")


@pytest.mark.skipif(os.environ.get("TORUS_SOAK") != "1" or os.geteuid() != 0,
                    reason="makes a Debian 11 root file system: TORUS_SOAK=1, as root")
def test_it_opens_on_debian_11(installed, tmp_path):
    root = tmp_path / "bullseye"
    subprocess.run(["mmdebstrap", "--variant=minbase", "--include=python3,libstdc++6", "--quiet",
                    "bullseye", root], check=True, timeout=300)
    subprocess.run(["cp", "-r", installed / "libtpu", root / "libtpu"], check=True)
    done = subprocess.run(["chroot", root, "python3", "-c", OPEN, "/libtpu/libtpu.so"], capture_output=True,
                          text=True, timeout=120)
    assert done.stdout == "client\n", done.stderr
    done = subprocess.run(["chroot", root, "/libtpu/torus-verify"], capture_output=True, text=True, timeout=60)
    assert done.stderr.startswith("usage: torus-verify"), done.stderr
