"""Runs TensorFlow's own tests on libtpu.so, with tensorflow-tpu; scripts/conformance.sh starts it.

Each file of tests is a process (tensorflow_process.py). A test that ends its process, or hangs, has a
second try in another one, as TensorFlow's own tf.data hangs now and then; then it is a failure, and the
next process goes on behind it. Which files: tensorflow_files.toml.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import tomllib

import page
import suite

LISTED = tomllib.loads((suite.HERE / "tensorflow_files.toml").read_text())
GROUPS = {group["name"]: group for group in LISTED["group"]}
FILES = {file: group for group in LISTED["group"] for file in group["files"]}
# What upstream's tests say where they are for other devices, or are no test: those do not count.
NOT_FOR_US = ("Test that doesn't require TPUs.", "Not a test.")


def installed():
    """The version of this Python's TensorFlow, without an import."""
    from importlib import metadata
    return metadata.version("tensorflow-tpu")


def adapter():
    path = suite.library().parent / "tensorflow" / installed().rpartition(".")[0] / "adapter.so"
    if not path.exists():
        sys.exit(f"error: {path} is not built: scripts/build.sh release, after scripts/tensorflow.sh")
    return path


def version_of(source):
    for file in ("tensorflow/tf_version.bzl", "tensorflow/tensorflow.bzl",
                 "tensorflow/tools/pip_package/setup.py"):
        path = source / file
        has = path.exists() and re.search(r"^(?:TF_|_)?VERSION = ['\"]([\d.]+)", path.read_text(), re.M)
        if has:
            return has[1]
    return "unknown"


def cores_of(name):
    return FILES[name].get("cores", 2)


def environment(cores, folder):
    chips = {2: {"TPU_VISIBLE_CHIPS": "0"}, 8: {}}[cores]
    # TPU_LOAD_LIBRARY: without TensorFlow's own lock, one file for all TPUs of a machine.
    # TF_NUM_INTEROP_THREADS: as on a machine of that many CPUs. With two, the threads that take two
    # replicas' tf.data iterators down wait for ever for a third.
    return suite.clean_environment("TPU_", "TORUS_", "TF_", "XLA_", "PYTHON") | chips | {
        "TPU_LIBRARY_PATH": str(suite.library()), "TPU_ACCELERATOR_TYPE": "v2-8",
        "TPU_LOAD_LIBRARY": "1", "TORUS_PROGRAM_CACHE": "off", "TF_CPP_MIN_LOG_LEVEL": "1",
        "TF_NUM_INTEROP_THREADS": "16",
        "TORUS_COUNTERS": f"{folder}/counters", "TEST_TMPDIR": f"{folder}/tests",
        "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(suite.ROOT / "packaging/libtpu/libtpu/sdk")}


def result(name):
    return suite.Result("tensorflow", name, ".jsonl")


def lines(name):
    path = result(name).path
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def add(name, line):
    with result(name).path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def fails(name, test, message):
    add(name, {"test": test, "outcome": "failed", "message": message, "programs": 0})


def run_process(name, options, folder):
    """Runs what has not been run yet. Returns how the process ended; "" if as it should."""
    kept = result(name)
    command = [sys.executable, str(suite.HERE / "tensorflow_process.py"), str(options.source),
               f"tensorflow/python/{name}_test.py", str(kept.path)]
    with kept.log.open("a") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment(cores_of(name), folder),
                                   stdout=log, stderr=log, start_new_session=True)
        size, since = 0, time.monotonic()
        try:
            while process.poll() is None:
                time.sleep(0.2)
                now = kept.path.stat().st_size if kept.path.exists() else 0
                if now != size:
                    size, since = now, time.monotonic()
                if time.monotonic() - since > options.timeout:
                    return f"hung: nothing for {options.timeout:.0f} s"
        finally:
            suite.end(process)
    if process.returncode < 0:
        return f"its process ended by signal {-process.returncode}: {kept.log.read_text()[-2000:]}"
    return ""


def run(name, options):
    """Runs one file, unless its result is there."""
    kept = result(name)
    stamp = {"tensorflow": installed(), "source": version_of(options.source),
             "cores": cores_of(name),
             "library": suite.digest(suite.library(), adapter()),
             "process": suite.digest(suite.HERE / "tensorflow_process.py")}
    if not options.fresh and kept.stands(stamp):
        return
    kept.begin()
    with tempfile.TemporaryDirectory(prefix="torus-conformance-") as folder:
        while True:
            for inner in ("counters", "tests"):
                pathlib.Path(folder, inner).mkdir(exist_ok=True)
            end = run_process(name, options, folder)
            found = lines(name)
            last = found[-1] if found else {}
            if "begins" in last:
                test, end = last["begins"], end or "its process exited"
                if any(line.get("again") == test for line in found):
                    fails(name, test, end)
                else:
                    add(name, {"again": test, "message": end})
                continue
            if "all" not in last:  # nothing of the file can run
                fails(name, "the file", end or kept.log.read_text()[-2000:])
            elif end:
                fails(name, "the end", end)
            break
    kept.finish(stamp)


def row_of(name, expected):
    """One row of the table, with the failures that are not expected; None without results."""
    note = result(name).note()
    if note is None:
        return None
    row = {"name": name, "note": note, "counts": collections.Counter(), "on_tpu": 0, "again": 0,
           "expected": 0, "unexpected": []}
    for line in lines(name):
        row["again"] += "again" in line
        skipped = line.get("outcome") == "skipped"
        if "test" not in line or skipped and any(text in line["message"] for text in NOT_FOR_US):
            continue
        row["counts"][line["outcome"]] += 1
        row["on_tpu"] += line["outcome"] == "passed" and line["programs"] > 0
        if line["outcome"] != "failed":
            continue
        if expected.reason(name, line["test"], line["message"]):
            row["expected"] += 1
        else:
            row["unexpected"].append((line["test"], line["message"]))
    return row


def table(rows):
    if not rows:
        return "Nothing has been run."
    text = ["| group | file | cores | passed / failed / skipped | passed, with programs on the TPU | "
            "failures listed / not |", "|-|-|-|-|-|-|"]
    for row in rows:
        text.append("| {} | {}_test | {} | {} | {} | {} / {} |".format(
            FILES[row["name"]]["name"], row["name"], row["note"]["stamp"]["cores"],
            " / ".join(str(row["counts"][o]) for o in ("passed", "failed", "skipped")),
            row["on_tpu"], row["expected"], len(row["unexpected"])))
    total = sum((row["counts"] for row in rows), collections.Counter())
    stamps = [row["note"]["stamp"] for row in rows]
    each = lambda key: ", ".join(sorted({stamp[key] for stamp in stamps}))
    ran = total["passed"] + total["failed"]
    text += ["", f"In all: {total['passed']} of {ran} that TensorFlow does not skip pass, "
             f"{sum(row['on_tpu'] for row in rows)} of them with programs on the TPU; "
             f"{sum(row['again'] for row in rows)} had a second try.",
             f"tensorflow-tpu {each('tensorflow')}, tests of TensorFlow {each('source')}, v2-8, last run "
             f"{max(row['note']['day'] for row in rows)}."]
    return "\n".join(text)


def parse():
    parser = argparse.ArgumentParser(prog="scripts/conformance.sh tensorflow")
    parser.add_argument("--source", type=pathlib.Path, help="a checkout of TensorFlow's source")
    parser.add_argument("--only", action="append", metavar="GROUP", choices=[*GROUPS, *FILES],
                        help="a group, or a file without _test.py; may be repeated")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for a test")
    parser.add_argument("--fresh", action="store_true", help="run also what has a result")
    parser.add_argument("--table", action="store_true", help="write the table of what has been run")
    options = parser.parse_args()
    if not options.table:
        options.source = options.source.resolve()
        if not (options.source / "tensorflow/python/distribute/tpu_strategy_test.py").exists():
            sys.exit(f"error: {options.source} is no checkout of TensorFlow: it has no "
                     "tensorflow/python/distribute/tpu_strategy_test.py")
        has = version_of(options.source)
        if has != installed():
            print(f"note: {options.source} is TensorFlow {has}; {installed()} is installed", flush=True)
    return options


def main():
    options, expected = parse(), suite.Expected("tensorflow_expected.toml")
    chosen = [file for name in options.only or GROUPS
              for file in (GROUPS[name]["files"] if name in GROUPS else [name])]
    if not options.table:
        for name in chosen:
            run(name, options)
            row = row_of(name, expected)
            print(f"{name}: {dict(row['counts'])}, {row['on_tpu']} passed with programs on the TPU",
                  flush=True)
            suite.print_unexpected(row)
    rows = [row for name in FILES if (row := row_of(name, expected))]
    page.write("scripts/conformance.sh tensorflow", table(rows))
    bad = [row["name"] for row in rows if row["unexpected"] and row["name"] in chosen]
    missing = [] if options.table else [name for name in chosen if result(name).note() is None]
    suite.exit_on(bad, missing, expected)


if __name__ == "__main__":
    main()
