"""What `torus doctor` sees of this machine and this Python: a fact a line, for src/doctor/knowledge.toml.

    package NAME VERSION
    needs NAME VERSION REQUIREMENT has VERSION   a requirement that the installed version does not meet
    both NAME VERSION and NAME VERSION own FILE  the one installed last has overwritten the other
    variable NAME=VALUE
    tpu N                                        PCI functions of Google's are here
    running PID SECONDS FRAMEWORK HOW COMMAND    a process of ours with a framework in it; HOW: with-libtpu,
                                                 by-grpc (a connection to a TensorFlow worker) or without-tpu

Any Python from 3.8 runs it; what it cannot find out it leaves out.
"""
import collections
import os
import pathlib
import re
import sys
from importlib import metadata

# Frameworks, and what they find TPUs by. Others' requirements are pip's to check.
OURS = re.compile(r"(tensorflow|tf)[-_.]?(tpu|cpu|nightly|keras)*|keras|jax|jaxlib|flax|libtpu(-nightly)?|torus-libtpu"
                  r"|torch|torch-xla|torch-tpu|cloud-tpu-client")
VARIABLES = re.compile(r"(TPU|JAX|PJRT|TORUS|LIBTPU)_\w+|XLA_FLAGS|XRT_TPU_CONFIG|COLAB_TPU_ADDR")


def name_of(distribution):
    return re.sub(r"[-_.]+", "-", distribution.metadata["Name"] or "").lower()


def unmet(distribution, installed):
    """Requirements, those of the extra "tpu" among them, that an installed package does not meet."""
    try:
        from packaging.requirements import Requirement
    except ImportError:
        from pip._vendor.packaging.requirements import Requirement
    for text in distribution.requires or []:
        requirement = Requirement(text)
        other = installed.get(re.sub(r"[-_.]+", "-", requirement.name).lower())
        if other is None or not OURS.fullmatch(name_of(other)):
            continue
        if requirement.marker and not requirement.marker.evaluate({"extra": "tpu"}):
            continue
        if not requirement.specifier.contains(other.version, prereleases=True):
            yield f"{name_of(other)}{requirement.specifier}", other.version


def overwritten(installed):
    """Pairs of packages that have a file in common, with the first such file."""
    owners = collections.defaultdict(list)
    for name, distribution in installed.items():
        if OURS.fullmatch(name):
            for file in distribution.files or []:
                if file.parts and not file.parts[0].endswith((".dist-info", "__pycache__")) and file.parts[0] != "..":
                    owners[str(file)].append(name)
    pairs = {}
    for file, names in owners.items():
        for other in names[1:]:
            pairs.setdefault((names[0], other), file)
    return pairs


LIBRARIES = {"libtensorflow_cc.so": "tensorflow", "_pywrap_tensorflow": "tensorflow", "libjax_common.so": "jax",
             "xla_extension.so": "jax", "_XLAC": "torch-xla"}
WORKER_PORT = ":2116 "  # 8470, as /proc/net/tcp writes it


def seconds_of(process):
    """Since the process began."""
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    uptime = float(pathlib.Path("/proc/uptime").read_text().split()[0])
    return int(uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK"))


def asks_a_worker(process):
    """Whether the process has a connection to a TensorFlow worker's port."""
    inodes = {os.readlink(fd)[8:-1] for fd in (process / "fd").iterdir() if os.readlink(fd).startswith("socket:[")}
    for table in ("tcp", "tcp6"):
        for line in (process / "net" / table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[2].endswith(WORKER_PORT.strip()) and fields[9] in inodes:
                return True
    return False


def running():
    for process in pathlib.Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            maps = (process / "maps").read_text()
            framework = next((name for library, name in LIBRARIES.items() if library in maps), None)
            if framework is None:
                continue
            how = "with-libtpu" if "libtpu.so" in maps else "by-grpc" if asks_a_worker(process) else "without-tpu"
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            yield f"running {process.name} {seconds_of(process)} {framework} {how} {command[:200]}"
        except OSError:  # it has ended, or is another's
            continue


def facts():
    installed = {}
    for distribution in metadata.distributions():
        installed.setdefault(name_of(distribution), distribution)
    for name, distribution in sorted(installed.items()):
        if OURS.fullmatch(name):
            yield f"package {name} {distribution.version}"
            try:
                for requirement, version in unmet(distribution, installed):
                    yield f"needs {name} {distribution.version} {requirement} has {version}"
            except Exception as error:  # metadata are files that others wrote
                print(f"the requirements of {name} cannot be read: {error}", file=sys.stderr)
    for (one, other), file in sorted(overwritten(installed).items()):
        yield f"both {one} {installed[one].version} and {other} {installed[other].version} own {file}"
    for name, value in sorted(os.environ.items()):
        if VARIABLES.fullmatch(name):
            yield f"variable {name}={value}"
    functions = [path for path in pathlib.Path("/sys/bus/pci/devices").glob("*/vendor")
                 if path.read_text().strip() == "0x1ae0"]
    if functions:
        yield f"tpu {len(functions)}"
    yield from running()


for fact in facts():
    print(fact.replace("\n", " "))
