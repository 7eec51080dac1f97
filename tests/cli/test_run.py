"""torus run: a program on the software TPU. What it is given, and how it ends."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TORUS = pathlib.Path(os.environ.get("TORUS", ROOT / "build/release/torus")).resolve()
SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"


@pytest.fixture
def run(tmp_path):
    def run(*arguments, rc=0, torus=TORUS, **variables):
        done = subprocess.run([torus, "run", *arguments], capture_output=True, text=True, timeout=60, cwd=tmp_path,
                              env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)} | variables)
        assert done.returncode == rc, done.stderr
        return done

    return run


def shown(done):
    return json.loads(done.stdout)


def test_a_program_finds_the_software_tpu(run):
    arguments, environ = shown(run(sys.executable, "-c", SHOW, "--epochs", "3"))
    assert arguments == ["--epochs", "3"]
    assert os.path.samefile(environ["TPU_LIBRARY_PATH"], TORUS.parent / "libtpu.so")
    assert os.path.exists(environ["TORUS_ENGINE"]) and environ["TPU_LOAD_LIBRARY"] == "1"
    assert "TORUS_AUTO_TPU" not in environ and "TPU_ACCELERATOR_TYPE" not in environ


def test_flags_before_the_program_are_ours_and_those_after_it_are_its(run):
    arguments, environ = shown(run("--accelerator-type=v5litepod-4", "--auto-tpu", sys.executable, "-c", SHOW,
                                   "--accelerator-type=mine", "--help", "--", "-x"))
    assert arguments == ["--accelerator-type=mine", "--help", "--", "-x"]
    assert (environ["TPU_ACCELERATOR_TYPE"], environ["TORUS_AUTO_TPU"]) == ("v5litepod-4", "1")
    arguments, environ = shown(run("--require-tpu", "--", sys.executable, "-c", SHOW, "--", "-x"))
    assert arguments == ["--", "-x"] and environ["TORUS_AUTO_TPU"] == "required"


def test_what_is_set_is_kept(run):
    _, environ = shown(run(sys.executable, "-c", SHOW, TPU_LIBRARY_PATH="/opt/libtpu.so", PYTHONPATH="/mine"))
    assert environ["TPU_LIBRARY_PATH"] == "/opt/libtpu.so" and "TORUS_ENGINE" not in environ
    assert environ["PYTHONPATH"].endswith("/python/startup:/mine")
    _, environ = shown(run(sys.executable, "-c", SHOW, TPU_LOAD_LIBRARY="0", TORUS_ENGINE="/opt/engine.so"))
    assert environ["TPU_LOAD_LIBRARY"] == "0" and environ["TORUS_ENGINE"] == "/opt/engine.so"


def test_the_exit_status_is_the_programs(run):
    run("sh", "-c", "exit 7", rc=7)
    assert run("sh", "-c", "kill -TERM $$", rc=-15)


def test_jax_has_the_slice_that_was_asked_for(run):
    done = run("--accelerator-type=v5litepod-8", sys.executable, "-c",
               "import jax, torus_tpu; print(jax.devices()[0].device_kind, jax.device_count())")
    assert done.stdout == "TPU v5 lite 8\n"


@pytest.mark.parametrize("arguments, rc, said", [
    ([], 2, "give a program to run: torus run python3 train.py"),
    (["--epochs=3", "python3"], 2, "--epochs=3: torus run has no such flag; a program's own go after its name"),
    (["no-such-program"], 1, "no-such-program: there is no such program"),
    (["/etc/passwd"], 1, "cannot run /etc/passwd: Permission denied"),
])
def test_wrong_use_is_explained(run, arguments, rc, said):
    assert said in run(*arguments, rc=rc).stderr


def test_a_half_installed_torus_says_what_is_missing(run, tmp_path):
    (tmp_path / "bin").mkdir()
    shutil.copy(TORUS, tmp_path / "bin/torus")
    done = run("true", rc=1, torus=tmp_path / "bin/torus")
    assert "libtpu.so, the software TPU: No such file or directory. Install Torus whole" in done.stderr
