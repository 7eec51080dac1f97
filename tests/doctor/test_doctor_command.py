"""The real `torus doctor`: logs of any kind, programs it runs, and what users can get wrong.

What each finding says of which logs is in the YAML files beside this one (src/doctor/cases_test.cc).
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TORUS = os.environ.get("TORUS", str(ROOT / "build/release/torus"))
BATCH = "ValueError: The `global_batch_size` 100 is not divisible by `num_replicas_in_sync` 8"


def doctor(*arguments, log="", rc=None):
    data = log if isinstance(log, bytes) else log.encode()
    done = subprocess.run([TORUS, "doctor", *arguments], input=data, capture_output=True, timeout=120)
    if rc is not None:
        assert done.returncode == rc, done
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def found(log):
    rc, out, err = doctor("--log", "-", "--format=json", log=log)
    ids = [finding["id"] for finding in json.loads(out)["findings"]]
    assert rc == (3 if ids else 0) and err == ""
    return ids


def test_a_log_names_the_fault_the_line_and_the_cure(tmp_path):
    log = tmp_path / "train.log"
    log.write_text(f"Epoch 1/5\n{BATCH}\n")
    _, out, _ = doctor("--log", str(log), rc=3)
    assert out.splitlines()[0] == "error: A batch of 100 cannot be shared by 8 replicas."
    assert f"{log}:2: {BATCH}" in out and "Make the global batch 96 or 104" in out and "docs/doctor/TD024.md" in out
    assert "\x1b" not in out


def test_a_healthy_log_is_quiet():
    assert doctor("--log", "-", log="Epoch 1/5\nloss: 0.3\n", rc=0)[1] == "Nothing is known to be wrong in 2 lines.\n"


def test_several_logs_are_read_together(tmp_path):
    for name, text in (("a", "fine\n"), ("b", "x\n" + BATCH)):
        (tmp_path / name).write_text(text)
    out = doctor("--log", str(tmp_path / "a"), "--log", str(tmp_path / "b"), "--format=json", rc=3)[1]
    evidence = json.loads(out)["findings"][0]["evidence"][0]
    assert evidence == {"source": str(tmp_path / "b"), "line": 2, "text": BATCH, "times": 1}


@pytest.mark.parametrize("encode", [
    lambda text: text.encode("utf-16"), lambda text: text.encode("utf-16-be").join([b"\xfe\xff", b""]),
    lambda text: text.replace("\n", "\r\n").encode(), lambda text: f"\x1b[31m{text}\x1b[0m".encode(),
    lambda text: text.encode().rstrip(b"\n"),  # cut off
    lambda text: bytes(range(256)) * 64 + b"\n" + text.encode()])
def test_bytes_of_every_kind_are_read(encode):
    assert found(encode(f"some line\n{BATCH}\n")) == ["TD024"]


def test_garbage_is_no_finding():
    assert found(os.urandom(1 << 20)) == []


def test_a_huge_log_takes_no_more_memory():
    """As long as TORUS_SOAK=1 says a gigabyte; a sixteenth of it otherwise."""
    pieces = 1024 if os.environ.get("TORUS_SOAK") else 64
    piece = (b"2026-12-01 12:00:00.0: I step 12: loss 0.25 infeed wait 2% " + b"x" * 60 + b"\n") * 8192
    reader = subprocess.Popen([TORUS, "doctor", "--log", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    peaks = []
    for i in range(pieces):
        reader.stdin.write(piece)
        if i in (8, pieces - 1):
            status = pathlib.Path(f"/proc/{reader.pid}/status").read_text()
            peaks.append(int(status.split("VmHWM:")[1].split()[0]))
    out = reader.communicate(BATCH.encode())[0].decode()
    assert f"standard input:{8192 * pieces + 1}: ValueError" in out
    assert peaks[1] - peaks[0] < 4096 and peaks[1] < 128 << 10, peaks  # KiB


def test_a_line_without_an_end_is_read_in_constant_memory():
    reader = subprocess.Popen([TORUS, "doctor", "--log", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for _ in range(64):
        reader.stdin.write(b"x" * (1 << 20))
    peak = int(pathlib.Path(f"/proc/{reader.pid}/status").read_text().split("VmHWM:")[1].split()[0])
    reader.communicate()
    assert peak < 128 << 10 and reader.returncode == 0


def test_a_program_is_watched_and_its_output_and_status_are_its_own():
    program = f"import sys; print('out'); print({BATCH!r}, file=sys.stderr); sys.exit(7)"
    rc, out, err = doctor("--", sys.executable, "-c", program)
    assert rc == 7 and out == "out\n"
    assert err.startswith(BATCH + "\n") and "Make the global batch 96 or 104" in err and "stderr:1:" in err


def test_lines_are_counted_by_where_they_come_from():
    program = ("import sys\nfor i in range(3): print('out', flush=True); print('err', file=sys.stderr)\n"
               f"print({BATCH!r})")
    assert f"stdout:4: {BATCH}" in doctor("--", sys.executable, "-c", program, rc=3)[2]


def test_a_program_that_ends_well_with_a_fault_in_its_output():
    assert doctor("--", "sh", "-c", f'echo "{BATCH.replace("`", "")}"')[0] == 3
    assert doctor("--", "true")[0] == 0


def test_a_program_that_reads_gets_what_is_typed():
    assert doctor("--", "cat", log="typed\n")[1] == "typed\n"


def test_an_interrupt_is_the_programs_and_the_diagnosis_comes_after():
    command = [TORUS, "doctor", "--", "sh", "-c", f"echo '{BATCH}'; exec sleep 60"]
    # What runs in the background of a script has interrupts ignored, and its children with it.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    assert process.stdout.readline().strip() == BATCH
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGINT and "96 or 104" in err


@pytest.mark.parametrize("arguments, said", [
    (("--python", "/no"), "--python=PATH names"),
    (("--log", "/nowhere/a.log"), "cannot open the log /nowhere/a.log: No such file"),
    (("--log", "/"), "cannot read /: Is a directory"), (("--log", "-", "--format=yaml"), "text or json"),
    (("--", "no-such-program"), "no-such-program: there is no such program")])
def test_mistakes(arguments, said):
    rc, _, err = doctor(*arguments)
    assert rc in (1, 2) and said in err, err


def test_the_doctor_is_right_often_enough(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import doctor_pages
    page, recall, precision = doctor_pages.accuracy()
    assert recall >= 0.9 and precision >= 0.95, page


def test_the_pages_are_what_the_doctor_says():
    done = subprocess.run([sys.executable, ROOT / "scripts/doctor_pages.py", "--check"], text=True,
                          capture_output=True, env=os.environ | {"TORUS": TORUS})
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def python(tmp_path):
    """A Python with packages that are only metadata: python({"jax": "0.4.20"}, requires={"jax": [...]}, files=…)."""
    def make(packages, requires=(), files=()):
        for name, version in packages.items():
            folder = tmp_path / "site" / f"{name}-{version}.dist-info"
            folder.mkdir(parents=True)
            lines = [f"Name: {name}", f"Version: {version}"]
            lines += [f"Requires-Dist: {requirement}" for requirement in dict(requires).get(name, ())]
            (folder / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")
            (folder / "RECORD").write_text("".join(f"{file},,\n" for file in dict(files).get(name, ())))
        program = tmp_path / "python3"
        program.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/site exec {sys.executable} "$@"\n')
        program.chmod(0o755)
        return str(program)
    return make


def of_python(program, *more):
    out = doctor("--python", program, "--format=json", *more)[1]
    return {finding["id"]: finding["cause"] for finding in json.loads(out)["findings"]}


def test_packages_that_do_not_fit_are_found_before_anything_runs(python):
    program = python({"jaxlib": "0.4.14", "jax": "0.4.30", "libtpu": "0.0.3"},
                     requires={"jax": ["jaxlib<=0.4.30,>=0.4.27", 'libtpu==0.0.9.*; extra == "tpu"', "numpy>=1.22"]})
    said = doctor("--python", program, rc=3)[1]
    assert "jax 0.4.30 needs jaxlib<=0.4.30,>=0.4.27, and jaxlib 0.4.14 is installed." in said, said


def test_the_extra_for_tpus_counts(python):
    program = python({"jax": "0.6.0", "libtpu": "0.0.3"}, requires={"jax": ['libtpu==0.0.13.*; extra == "tpu"']})
    assert of_python(program)["TD036"] == "jax 0.6.0 needs libtpu==0.0.13.*, and libtpu 0.0.3 is installed."


def test_packages_that_own_the_same_files(python):
    program = python({"libtpu": "0.0.17", "torus_libtpu": "0.1.0"},
                     files={"libtpu": ["libtpu/libtpu.so"], "torus_libtpu": ["libtpu/libtpu.so", "../../bin/x"]})
    assert "libtpu 0.0.17 and torus-libtpu 0.1.0 both bring libtpu/libtpu.so" in of_python(program)["TD037"]


def test_torch_and_torch_xla_go_together(python):
    assert "TD022" in of_python(python({"torch": "2.5.1", "torch_xla": "2.9.0"}))


def test_this_python_is_well():
    assert "Nothing is known to be wrong in " in doctor("--python", sys.executable, rc=0)[1]
    assert "package jax " in doctor("--python", sys.executable, "--show-facts", rc=0)[1]


def test_processes_with_a_framework_and_whether_they_have_a_tpu(tmp_path):
    """Stand-ins for the libraries: what counts is what a process has mapped."""
    for name in ("libjax_common.so", "libtpu.so"):
        (tmp_path / name).write_bytes(b"x" * 4096)
    code = ("import mmap, sys\nfiles = [open(path, 'rb') for path in sys.argv[1:]]\n"
            "maps = [mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) for file in files]\n"
            "print('mapped', flush=True)\nsys.stdin.read()")
    libraries = [str(tmp_path / "libjax_common.so"), str(tmp_path / "libtpu.so")]
    processes = [subprocess.Popen([sys.executable, "-c", code, *libraries[:n]], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE) for n in (1, 2)]
    for process in processes:
        assert process.stdout.readline() == b"mapped\n"
    facts = doctor("--python", sys.executable, "--show-facts", rc=0)[1].splitlines()
    for process, how in zip(processes, ("without-tpu", "with-libtpu")):
        fact = next(fact for fact in facts if fact.startswith(f"running {process.pid} "))
        assert f" jax {how} {sys.executable} -c" in fact, fact
        process.communicate()


def test_the_facts_of_another_machine(tmp_path):
    (tmp_path / "facts").write_text("package tensorflow 2.20.0\ntpu 4\n")
    said = doctor("--facts", str(tmp_path / "facts"), rc=3)[1]
    assert "tensorflow 2.20.0 has no kernels" in said and "seen   here: package tensorflow 2.20.0" in said
    assert "/nowhere" in doctor("--facts", "/nowhere", rc=1)[2]
