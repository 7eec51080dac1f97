"""A host whose disk fails and whose clock jumps (bad_host.c), for one service and its workers."""
import errno
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).with_name("bad_host.c")


def build(folder):
    library = folder / "bad_host.so"
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"],
                   check=True)
    return library


class BadHost:
    """Counts from the next start of the service on; what is bad may change at any time."""

    def __init__(self, service, folder):
        self.service = service
        self.control = folder / "bad_host"
        self.lines = {}
        service.environment |= {"LD_PRELOAD": str(build(folder)), "TORUS_BAD_HOST": str(self.control)}

    def fail_writes(self, folder, error=errno.EIO):
        self._set("write", f"write {error} {folder}")

    def heal_disk(self):
        self._set("write", None)

    def shift_clock(self, seconds):
        self._set("clock", f"clock {seconds}")

    def leave(self):
        """From the next start of the service on, the host is good."""
        for name in ("LD_PRELOAD", "TORUS_BAD_HOST"):
            self.service.environment.pop(name, None)

    def _set(self, kind, line):
        self.lines[kind] = line
        temporary = self.control.with_suffix(".new")
        temporary.write_text("".join(l + "\n" for l in self.lines.values() if l))
        temporary.rename(self.control)
