"""What the suites of conformance tests share: the library under test, results that stay, and the
committed lists of failures that are known."""
import datetime
import fnmatch
import hashlib
import json
import os
import pathlib
import signal
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = ROOT / "build/conformance/results"


def library():
    path = pathlib.Path(os.environ.get("TORUS_LIBTPU", ROOT / "build/release/libtpu.so")).resolve()
    if not path.exists():
        sys.exit(f"error: {path} is not built: scripts/build.sh release, or name it in TORUS_LIBTPU")
    return path


def digest(*paths):
    """Tells builds apart."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:12]


def clean_environment(*prefixes):
    """This shell's, without what would steer the tests."""
    return {k: v for k, v in os.environ.items() if not k.startswith(prefixes)}


def end(process):
    """Ends a process that was started in a session of its own, and all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


class Result:
    """The results of one file of tests, beside them a note of what they depend on."""

    def __init__(self, side, name, suffix):
        self.path = RESULTS / side / (name.replace("/", "-") + suffix)
        self.log = self.path.with_suffix(".log")
        self._note = self.path.with_suffix(".json")

    def note(self):
        """None where there are no results, or their run was ended."""
        if not self.path.exists() or not self._note.exists():
            return None
        return json.loads(self._note.read_text())

    def stands(self, stamp):
        note = self.note()
        return note is not None and note["stamp"] == stamp

    def begin(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for old in (self.path, self._note, self.log):
            old.unlink(missing_ok=True)

    def finish(self, stamp, cut=False):
        self._note.write_text(json.dumps({"stamp": stamp, "cut": cut,
                                          "day": datetime.date.today().isoformat()}))


class Expected:
    """The committed list of failures that are known, each with its reason."""

    def __init__(self, file):
        self.file = file
        self.entries = tomllib.loads((HERE / file).read_text()).get("expected", [])
        for entry in self.entries:
            if not entry.get("reason"):
                sys.exit(f"error: {file}: {entry} has no reason")

    def reason(self, name, test, message):
        for entry in self.entries:
            if (entry["file"] == name and entry.get("says", "") in message and
                    any(fnmatch.fnmatchcase(test, p) for p in entry["tests"])):
                return entry["reason"]
        return None


def print_unexpected(row):
    for test, message in row["unexpected"]:
        print(f"  unexpected: {test}: {message.strip()[-300:]!r}", flush=True)


def exit_on(bad, missing, expected):
    if bad or missing:
        sys.exit(f"error: failures that {expected.file} does not list in: {bad}; no result: {missing}")
