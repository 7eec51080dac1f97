"""Walks the fault points of src/base/fault.h: learn which ones a change passes, then die at each.

A CI run takes a sample of them; with TORUS_SOAK=1 every one is walked.
"""
import collections
import os
import time

SOAK = os.environ.get("TORUS_SOAK") == "1"
SAMPLE = 8      # points of a walk without TORUS_SOAK
MOST_HITS = 12  # of one point: what comes after is polling, or more of the same


class Faults:
    """What TORUS_FAULT and TORUS_FAULT_LOG are for one service and its workers."""

    def __init__(self, service, folder):
        self.service = service
        self.log = folder / "faults.log"
        self.struck_file = folder / "faults.log.struck"

    def set(self, fault=""):
        """From the next start of the service on: note the points, and die or stop at this one."""
        self.log.unlink(missing_ok=True)
        self.struck_file.unlink(missing_ok=True)
        self.service.environment |= {"TORUS_FAULT": fault, "TORUS_FAULT_LOG": str(self.log)}

    def clear(self):
        """From the next start on there are none; live workers keep theirs, which strike once."""
        for name in ("TORUS_FAULT", "TORUS_FAULT_LOG"):
            self.service.environment.pop(name, None)

    @property
    def struck(self):
        """Whether the fault has struck; if it was the service that died, its death is seen, too."""
        try:
            pid = int(self.struck_file.read_text() or 0)
        except FileNotFoundError:
            return False
        process = self.service.process
        if process is not None and process.pid == pid:
            process.wait(timeout=10)
            self.service.process = None
        return True

    def lines(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def passed(self, since=0):
        """Each "point:n" that some process met after the log had `since` lines; n counts from its start."""
        counts, points = collections.Counter(), []
        for number, line in enumerate(self.lines()):
            counts[line] += 1
            if number >= since and counts[line] <= MOST_HITS:
                points.append(f"{line.split()[1]}:{counts[line]}")
        return list(dict.fromkeys(points))


def sample(points):
    """The points to walk: all of them, or some that are spread over the whole."""
    if SOAK or len(points) <= SAMPLE:
        return points
    return [points[i * len(points) // SAMPLE] for i in range(SAMPLE)]


def start_or_die(service, seconds=30):
    """Starts the service; False: its fault struck before it served."""
    offset = service.spawn()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if service.process.poll() is not None:
            service.process = None
            return False
        if "listening on" in service.log.read_text()[offset:]:
            return True
        time.sleep(0.005)
    raise AssertionError("torus serve neither serves nor dies")


def has_died(service):
    if service.process is None or service.process.poll() is None:
        return service.process is None
    service.process = None
    return True
