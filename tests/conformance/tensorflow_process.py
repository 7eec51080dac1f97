"""Runs one file of TensorFlow's own tests, unmodified; tensorflow_suite.py starts it.

    tensorflow_process.py SOURCE tensorflow/python/…/x_test.py RESULTS

RESULTS gets a line of JSON when a test begins, one when it ends, and a last one when all have. A test
that has a line there already is not run, so a second process goes on where the first one died.

What upstream's build gives such a test, and a wheel does not, is made here:
- modules that only tests import come from SOURCE, where the installed TensorFlow lacks them;
- the program's name has "test_tpu" in it, so that tests of a strategy run for TPUs, and only those;
- the flags that upstream's programs define, and a module for free ports;
- a TPUClusterResolver of the name "" means this process's TPU, as in Google's own network;
- the MLIR bridge is off, as in upstream's plain tests. The wheel has by mistake the module that says
  it is on.
"""
import importlib.machinery
import json
import pathlib
import socket
import sys
import traceback
import types
import unittest

SOURCE, FILE, RESULTS = (pathlib.Path(argument) for argument in sys.argv[1:])
# Before the import: TensorFlow then looks at both.
sys.argv = [str(SOURCE / FILE.with_suffix("")) + "_tpu"]
sys.modules["tensorflow.python.framework.is_mlir_bridge_test_true"] = None

from absl import flags
import counters
from tensorflow.python.distribute.cluster_resolver.tpu import tpu_cluster_resolver


class ModulesOfSource:
    """Finds what the installed TensorFlow lacks."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        package, _, _ = name.rpartition(".")
        if not package.startswith("tensorflow"):
            return None
        return importlib.machinery.PathFinder.find_spec(name, [str(SOURCE / package.replace(".", "/"))])


def write(line):
    with RESULTS.open("a") as file:
        file.write(json.dumps(line) + "\n")


def known():
    if not RESULTS.exists():
        return set()
    return {json.loads(line).get("test") for line in RESULTS.read_text().splitlines()}


def name_of(test):
    return "::".join(test.id().split(".")[-2:])


def programs():
    """How many programs this process's TPU has run."""
    return sum(device.runs for device in counters.look().devices.values())


class Recorder(unittest.TextTestResult):
    """Writes what came of each test."""

    def startTest(self, test):
        super().startTest(test)
        self.outcome, self.message, self.before = "passed", "", programs()
        write({"begins": name_of(test)})

    def stopTest(self, test):
        super().stopTest(test)
        # Fewer than before: the test had the TPU initialized again, with counters of its own.
        now = programs()
        write({"test": name_of(test), "outcome": self.outcome, "message": self.message,
               "programs": now - self.before if now >= self.before else now})

    def _failed(self, message):
        self.outcome, self.message = "failed", message

    def addError(self, test, err):
        super().addError(test, err)
        self._failed(_text(err))
        if not isinstance(test, unittest.TestCase):  # a class's or the module's setup or teardown
            write({"test": test.id(), "outcome": "failed", "message": self.message, "programs": 0})

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._failed(_text(err))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._failed(_text(err))

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._failed("passes, and TensorFlow expects that it fails")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcome, self.message = "skipped", reason


def _text(err):
    return "".join(traceback.format_exception(*err))


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


class Runner(unittest.TextTestRunner):
    resultclass = Recorder

    def run(self, suite):
        ran = known()
        result = super().run(unittest.TestSuite(t for t in flat(suite) if name_of(t) not in ran))
        write({"all": result.testsRun})
        return result


class Program(unittest.TestProgram):
    """What absl.testing runs: it looks this class up in unittest."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options | {"testRunner": Runner})


def pick_unused_port():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


def resolve_locally():
    upstream = tpu_cluster_resolver.TPUClusterResolver.__init__

    def init(self, tpu=None, *arguments, **options):
        upstream(self, "local" if tpu == "" else tpu, *arguments, **options)

    tpu_cluster_resolver.TPUClusterResolver.__init__ = init


def main():
    sys.meta_path.append(ModulesOfSource)
    resolve_locally()
    flags.DEFINE_bool("tpu_use_tfrt", False, "As upstream's TPU runtime defines it.")
    sys.modules["portpicker"] = types.SimpleNamespace(pick_unused_port=pick_unused_port)
    unittest.TestProgram = Program
    path = SOURCE / FILE
    program = types.ModuleType("__main__")  # not by runpy, which gives it another name
    program.__file__ = str(path)
    sys.modules["__main__"] = program
    exec(compile(path.read_text(), path, "exec"), program.__dict__)


if __name__ == "__main__":
    main()
