"""What is wrong around the library is said clearly, and Python goes on."""
LIST_DEVICES = """
import jax
try:
    jax.devices()
except RuntimeError as error:
    print(error)
"""


def said(run, **variables):
    message = run(LIST_DEVICES, **variables)
    assert message, "no error was raised"
    return message


def test_a_missing_engine(run):
    message = said(run, TORUS_ENGINE="/no/such/engine.so")
    for part in ("FAILED_PRECONDITION", "/no/such/engine.so", "no such file", "scripts/deps.sh",
                 "TORUS_ENGINE"):
        assert part in message


def test_an_engine_that_is_a_text_file(run, tmp_path):
    (tmp_path / "engine.so").write_text("this is no library\n")
    message = said(run, TORUS_ENGINE=str(tmp_path / "engine.so"))
    assert "FAILED_PRECONDITION" in message and str(tmp_path) in message
    assert "invalid ELF header" in message or "file too short" in message


def test_an_engine_that_is_another_library(run):
    message = said(run, TORUS_ENGINE=_libc())
    assert "FAILED_PRECONDITION" in message and "no symbol GetPjrtApi" in message


def _libc():
    """The file of the C library that is loaded."""
    with open("/proc/self/maps") as maps:
        return next(line.split()[-1] for line in maps if "libc.so.6" in line)


def test_an_unknown_accelerator_type(run):
    message = said(run, TPU_ACCELERATOR_TYPE="v9-8")
    for part in ("INVALID_ARGUMENT", "TPU_ACCELERATOR_TYPE", "'v9-8'", "v4-8"):
        assert part in message


def test_a_bad_slice_file(run, tmp_path):
    file = tmp_path / "slice"
    for text, part in [("hello\n", "line 1: 'hello' lacks a key"),
                       ("ZONE: 'z'\n", "ACCELERATOR_TYPE"),
                       ("ACCELERATOR_TYPE: 'v9-8'\n", "'v9-8'")]:
        file.write_text(text)
        message = said(run, TORUS_SLICE=str(file))
        assert "INVALID_ARGUMENT" in message and str(file) in message and part in message


def test_a_missing_slice_file(run):
    message = said(run, TORUS_SLICE="/no/such/slice")
    assert "INVALID_ARGUMENT" in message and "/no/such/slice" in message


def test_the_cpu_is_left_where_the_tpu_is_broken(run):
    show = "import jax; print(jax.devices())"
    assert "CpuDevice" in run(show, JAX_PLATFORMS="cpu", TORUS_ENGINE="/none")
