"""The file itself: a guest in other people's processes."""
import pathlib
import re
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src/tpu"

# Libraries of glibc itself.
ALLOWED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
           "ld-linux-x86-64.so.2"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_exports_exactly_what_is_meant(libtpu):
    symbols = output("nm", "-D", "--defined-only", str(libtpu)).split("\n")
    tensorflow = re.findall(r"^F\((\w+)\)", (SOURCE / "tensorflow/names.inc").read_text(), re.M)
    assert len(tensorflow) > 200
    assert {line.split()[-1] for line in symbols if line} == {
        "GetPjrtApi", "TfTpu_Initialize", *tensorflow}


def test_needs_nothing_but_glibc(libtpu):
    needed = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", str(libtpu)))
    assert needed and set(needed) <= ALLOWED


def test_takes_nothing_from_the_process(libtpu):
    undefined = output("nm", "-D", "--undefined-only", "-C", str(libtpu))
    assert not re.search(r"absl|google::protobuf|grpc|std::", undefined)


def test_loading_it_starts_nothing(run, libtpu):
    assert run(f"""
        import ctypes, os, signal
        def state():
            handlers = [signal.getsignal(s) for s in signal.valid_signals()]
            masks = [l for l in open("/proc/self/status") if l.startswith(("Sig", "Shd"))]
            return len(os.listdir("/proc/self/task")), handlers, masks
        before = state()
        library = ctypes.CDLL({str(libtpu)!r}, mode=os.RTLD_LOCAL)
        assert state() == before
        library.GetPjrtApi.restype = ctypes.c_void_p
        assert library.GetPjrtApi()
        assert state() == before
        print("quiet")
        """) == "quiet\n"
