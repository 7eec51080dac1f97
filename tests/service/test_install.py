"""`cmake --install`: a prefix that works from where it was put."""
import subprocess

import pytest

import torus

FILES = ["bin/torus", "lib/torus/libtpu.so", "lib/torus/engine/xla_cpu.so",
         "lib/systemd/system/torus.service", "share/man/man1/torus.1",
         "share/bash-completion/completions/torus", "share/zsh/site-functions/_torus",
         "share/fish/vendor_completions.d/torus.fish"]


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", torus.BINARY.parent, "--prefix", prefix], check=True,
                   capture_output=True)
    return prefix


def test_the_prefix_holds_all_parts(prefix):
    assert [f for f in FILES if not (prefix / f).exists()] == []
    unit = (prefix / "lib/systemd/system/torus.service").read_text()
    assert f"{prefix}/bin/torus serve" in unit and "KillMode=process" in unit


def test_the_installed_program_finds_its_own_libtpu(prefix):
    text = subprocess.run([prefix / "bin/torus", "serve", "--help"], capture_output=True, text=True).stdout
    assert f"{prefix}/lib/torus/libtpu.so" in text and f"{prefix}/lib/torus/engine/xla_cpu.so" in text


def test_the_version_names_version_commit_and_engine(prefix):
    text = subprocess.run([prefix / "bin/torus", "--version"], capture_output=True, text=True).stdout
    assert text.startswith("torus ") and "commit" in text and "engine" in text
