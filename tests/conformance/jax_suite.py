"""Runs JAX's own tests on libtpu.so and on JAX's CPU backend; scripts/conformance.sh starts it.

Each file of tests is one job a side, a pytest in a process of its own whose JUnit results stay in
build/conformance/results, so that a run that was ended goes on where it was. A test that ends its
process (or hangs for two minutes) is one failure: pytest-xdist goes on in a new process.
"""
import argparse
import collections
import os
import pathlib
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import jax

import page
import suite

BAR = 0.99  # of the tests that the CPU passes

# The files of each group, without "_test.py".
GROUPS = {
    "shard_map": ["shard_map", "ragged_collective"],
    "pjit": ["pjit", "array", "multi_device"],
    "random": ["random", "random_lax"],
    "api": ["api", "aot", "pmap"],
    "memories": ["memories"],
    "layout": ["layout"],
    "export": ["export", "export_back_compat"],
    "python_callback": ["python_callback"],
    "debugging_primitives": ["debugging_primitives", "debugger"],
    "linalg": ["linalg", "svd", "qdwh", "eigh", "linalg_sharding"],
    "compilation_cache": ["compilation_cache", "cache_key"],
    "profiler": ["profiler", "profiler_session"],
    "pallas": ["pallas/tpu_pallas_interpret", "pallas/tpu_pallas_interpret_distributed",
               "pallas/pallas", "pallas/ops"],
    "lax": ["lax", "lax_control_flow", "lax_autodiff", "lax_vmap", "lax_vmap_op"],
    "lax_numpy": ["lax_numpy", "lax_numpy_einsum", "lax_numpy_indexing", "lax_numpy_operators",
                  "lax_numpy_reducers", "lax_numpy_setops", "lax_numpy_ufuncs",
                  "lax_numpy_vectorize"],
}
FILES = {name: group for group, names in GROUPS.items() for name in names}


def environment(side, options):
    env = suite.clean_environment("TPU_", "TORUS_", "JAX_", "XLA_")
    env |= {"JAX_NUM_GENERATED_CASES": str(options.cases), "JAX_SKIP_SLOW_TESTS": "1",
            "TORUS_EVERY": str(options.every), "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(suite.HERE)}
    if side == "cpu":
        return env | {"JAX_PLATFORMS": "cpu",
                      "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    return env | {"JAX_PLATFORMS": "tpu,cpu", "TPU_LIBRARY_PATH": str(suite.library()),
                  "TORUS_PROGRAM_CACHE": os.environ.get("TORUS_PROGRAM_CACHE", "off"),
                  "TPU_ACCELERATOR_TYPE": options.type, "ALLOW_MULTIPLE_LIBTPU_LOAD": "true"}


def stamp(side, options):
    """What a result depends on, beside JAX's source."""
    made = {"jax": jax.__version__, "cases": options.cases, "every": options.every,
            "sample": suite.digest(suite.HERE / "sample.py")}
    if side == "tpu":
        made |= {"type": options.type, "library": suite.digest(suite.library())}
    return made


def result(side, name):
    return suite.Result(side, name, ".xml")


def run(side, name, options):
    """Runs one file on one side, unless its result is there."""
    kept, wanted = result(side, name), stamp(side, options)
    if not options.fresh and kept.stands(wanted):
        return
    kept.begin()
    # Not `python -m pytest`, which would put the source's jax before the installed one.
    command = [str(pathlib.Path(sys.executable).parent / "pytest"), f"tests/{name}_test.py", "-q",
               "-p", "sample", "-p", "source_helpers", "-p", "no:cacheprovider", "-n", str(options.jobs),
               "--timeout=120", "--timeout-method=thread", f"--junitxml={kept.path}", "--tb=short"]
    with kept.log.open("w") as log:
        process = subprocess.Popen(command, cwd=options.source, env=environment(side, options),
                                   stdout=log, stderr=log, start_new_session=True)
        cut = False
        try:
            process.wait(options.timeout)
        except subprocess.TimeoutExpired:
            cut = True
            process.send_signal(signal.SIGINT)  # pytest then writes the results it has
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                pass
        finally:
            suite.end(process)  # its workers, and itself if it hangs
    kept.finish(wanted, cut)


def outcomes(side, name):
    """{"Class::test": (outcome, message)}, or None where the file has no result."""
    kept = result(side, name)
    if kept.note() is None:
        return None
    found = {}
    for case in ElementTree.parse(kept.path).iter("testcase"):
        key = f"{case.get('classname', '').split('.')[-1]}::{case.get('name')}"
        failure = next((case.find(k) for k in ("failure", "error") if case.find(k) is not None), None)
        if failure is not None:
            found[key] = ("failed", failure.get("message") or failure.text or "")
        elif key not in found:
            found[key] = ("skipped" if case.find("skipped") is not None else "passed", "")
    return found


def compare(name, expected):
    """One row of the table, with the failures that are not expected; None without results."""
    tpu, cpu = outcomes("tpu", name), outcomes("cpu", name)
    if tpu is None or cpu is None:
        return None
    note, cpu_note = result("tpu", name).note(), result("cpu", name).note()
    row = {"name": name, "tpu": collections.Counter(o for o, _ in tpu.values()),
           "cpu": collections.Counter(o for o, _ in cpu.values()), "note": note,
           "cut": note["cut"] or cpu_note["cut"], "expected": 0, "unexpected": []}
    # JAX itself skips a test on a TPU that a TPU cannot do: such a test says nothing of us.
    both = [t for t, (o, _) in cpu.items() if o == "passed" and tpu.get(t, ("skipped",))[0] != "skipped"]
    row["shared"] = len(both)
    row["passed"] = sum(tpu[t][0] == "passed" for t in both)
    for test, (outcome, message) in tpu.items():
        if outcome != "failed" or cpu.get(test, ("passed",))[0] == "failed":
            continue
        if expected.reason(name, test, message):
            row["expected"] += 1
        else:
            row["unexpected"].append((test, message))
    return row


def table(rows):
    lines = ["| group | file | software TPU: passed / failed / skipped | native CPU | of what the CPU "
             "passes | failures listed / not | run |", "|-|-|-|-|-|-|-|"]
    for row in rows:
        how = row["note"]["stamp"]
        run = ("all" if how["every"] == 1 else f"1 in {how['every']}") + \
            (", cut by time" if row["cut"] else "")
        lines.append(
            "| {} | {}_test | {} | {} | {} of {} | {} / {} | {} |".format(
                FILES[row["name"]], row["name"],
                *(" / ".join(str(row[s][o]) for o in ("passed", "failed", "skipped"))
                  for s in ("tpu", "cpu")),
                row["passed"], row["shared"], row["expected"], len(row["unexpected"]), run))
    passed, shared = sum(r["passed"] for r in rows), sum(r["shared"] for r in rows)
    ratio = passed / shared if shared else 0
    lines += ["", f"In all: {passed} of the {shared} tests that native CPU passes and JAX does not "
              f"skip on a TPU pass: {ratio:.2%} (bar: {BAR:.0%}).",
              f"jax {jax.__version__}, {rows[0]['note']['stamp']['type']}, "
              f"JAX_NUM_GENERATED_CASES={rows[0]['note']['stamp']['cases']}, last run "
              f"{max(r['note']['day'] for r in rows)}." if rows else "Nothing has been run."]
    return "\n".join(lines)


def check_source(source):
    if not (source / "tests/pjit_test.py").exists():
        sys.exit(f"error: {source} is no checkout of JAX: it has no tests/pjit_test.py")
    version = source / "jax/version.py"
    if version.exists():
        has = re.search(r'^_version = "(.*)"', version.read_text(), re.M)
        if has and has[1] != jax.__version__:
            sys.exit(f"error: {source} is JAX {has[1]}, and {jax.__version__} is installed: "
                     f"check out the tag jax-v{jax.__version__}")


def parse():
    parser = argparse.ArgumentParser(prog="scripts/conformance.sh jax")
    parser.add_argument("--source", type=pathlib.Path, help="a checkout of JAX's source")
    parser.add_argument("--only", action="append", metavar="GROUP",
                        choices=[*GROUPS, *(f"{name}_test" for name in FILES)],
                        help="a group, or a file without .py; may be repeated")
    parser.add_argument("--every", type=int, default=1, help="run one in N tests of a file")
    parser.add_argument("--cases", type=int, default=1, help="JAX_NUM_GENERATED_CASES")
    parser.add_argument("--type", default="v5litepod-8", help="the slice: 8 chips")
    parser.add_argument("--jobs", type=int, default=2, help="processes of pytest-xdist")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for a file on one side")
    parser.add_argument("--fresh", action="store_true", help="run also what has a result")
    parser.add_argument("--table", action="store_true", help="write the table of what has been run")
    options = parser.parse_args()
    if not options.table:
        options.source = options.source.resolve()
        check_source(options.source)
    return options


def main():
    options, expected = parse(), suite.Expected("jax_expected.toml")
    chosen = [name for g in options.only or GROUPS
              for name in GROUPS.get(g, [g.removesuffix("_test")])]
    if not options.table:
        for name in chosen:
            for side in ("tpu", "cpu"):
                run(side, name, options)
            row = compare(name, expected)
            if row is None:
                print(f"{name}: no results; see {result('*', name).log}", flush=True)
                continue
            print(f"{name}: tpu {dict(row['tpu'])}, cpu {dict(row['cpu'])}", flush=True)
            suite.print_unexpected(row)
    rows = [row for name in FILES if (row := compare(name, expected)) and row["tpu"]]
    page.write("scripts/conformance.sh jax", table(rows))
    bad = [r["name"] for r in rows if r["unexpected"] and r["name"] in chosen]
    missing = [] if options.table else [n for n in chosen if not compare(n, expected)]
    suite.exit_on(bad, missing, expected)


if __name__ == "__main__":
    main()
