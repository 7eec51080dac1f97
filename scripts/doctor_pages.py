#!/usr/bin/env python3
"""Writes docs/doctor/: a page a finding, from src/doctor/knowledge.toml and what `torus doctor` says of each
example there, and how often it is right on tests/doctor/corpus.yaml. With --check it only says whether they
are as they should be (a test does). TORUS names the binary (default: build/release/torus)."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs/doctor"
TORUS = os.environ.get("TORUS", ROOT / "build/release/torus")
INDEX = """# What `torus doctor` finds
```sh
torus doctor                       # this machine and its Python, before anything runs
torus doctor my-first-tpu          # a TPU VM, and what runs in it
torus doctor --log train.log       # any log: TensorFlow, JAX, PyTorch, gcloud; also from a real Cloud TPU
torus doctor -- python3 train.py   # runs it, and says at its end what went wrong
```
An error keeps the TPU from being used or the program from going on; a warning costs time, memory or results. Each finding has an id that stays; [how often it is right](accuracy.md). These pages are written from `src/doctor/knowledge.toml` by `scripts/doctor_pages.py`.

| id | name | severity | cause |
|-|-|-|-|
"""


def code(text, language=""):
    return f"```{language}\n{text.strip()}\n```\n"


ACCURACY = """# How often the doctor is right
The logs of `tests/doctor/corpus.yaml`, {logs} of them, {healthy} without a fault, are shaped after what users posted in public. Where the doctor missed one of them its patterns were mended, so this says how far it reaches, not how it does on logs that nobody has looked at. A test asks for a recall of 0.9 and a precision of 0.95.

| | found | not found |
|-|-|-|
| is there | {right} | {missed} |
| is not there | {wrong} | |

Recall {recall:.3f}, precision {precision:.3f}.
"""


def accuracy():
    """The page, and recall and precision."""
    corpus = yaml.safe_load((ROOT / "tests/doctor/corpus.yaml").read_text())
    right = wrong = missed = 0
    rows = ""
    for case in corpus:
        expected, found = set(case["expected"]), {finding["id"] for finding in said_of(case["log"])}
        right += len(expected & found)
        wrong += len(found - expected)
        missed += len(expected - found)
        if expected != found:
            is_there, is_said = (", ".join(sorted(ids)) or "nothing" for ids in (expected, found))
            rows += f"| {case['name']} | {is_there} | {is_said} |\n"
    recall, precision = right / (right + missed), right / (right + wrong)
    page = ACCURACY.format(logs=len(corpus), healthy=sum(not case["expected"] for case in corpus), right=right,
                           wrong=wrong, missed=missed, recall=recall, precision=precision)
    if rows:
        page += "\n| log | is | the doctor says |\n|-|-|-|\n" + rows
    return page, recall, precision


def said_of(log, facts=""):
    """The findings of a log and of facts."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(facts)
        file.flush()
        done = subprocess.run([TORUS, "doctor", "--facts", file.name, "--log", "-", "--format=json"], input=log,
                              text=True, capture_output=True)
    return json.loads(done.stdout)["findings"]


def diagnose(finding):
    """What the doctor says of the finding's example."""
    lines = finding["example"].strip().splitlines()
    facts = "".join(line.removeprefix("fact: ") + "\n" for line in lines if line.startswith("fact: "))
    log = "".join(line + "\n" for line in lines if not line.startswith("fact: ")) * finding.get("times", 1)
    return next(each for each in said_of(log, facts) if each["id"] == finding["id"])


def page(finding):
    said = diagnose(finding)
    cure = said["cure"]
    return "\n".join([
        f"# {finding['id']}: {finding['name']}",
        f"{said['cause']}\n",
        f"Severity: {said['severity']}. Confidence: {said['confidence']}.\n",
        "## Example", code(finding["example"].replace("fact: ", "")),
        "## Why", finding["more"] + "\n",
        "## Cure", code(cure) if "\n" in cure else cure + "\n",
        "## How to check", said["check"] + "."]) + "\n"


def pages():
    findings = tomllib.loads((ROOT / "src/doctor/knowledge.toml").read_text())["finding"]
    rows = "".join(f"| [{f['id']}]({f['id']}.md) | {f['name']} | {f.get('severity', 'error')} | "
                   f"{diagnose(f)['cause']} |\n" for f in findings)
    return {"README.md": INDEX + rows, "accuracy.md": accuracy()[0]} | {f"{f['id']}.md": page(f) for f in findings}


def main():
    wanted = pages()
    if "--check" not in sys.argv:
        PAGES.mkdir(exist_ok=True)
        for old in PAGES.glob("TD*.md"):
            old.unlink()
        for name, text in wanted.items():
            (PAGES / name).write_text(text)
        return 0
    found = {path.name: path.read_text() for path in PAGES.glob("*.md")}
    wrong = sorted(name for name in wanted | found if wanted.get(name) != found.get(name))
    if wrong:
        print(f"error: docs/doctor/{wrong[0]} is not what scripts/doctor_pages.py writes; run it")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
