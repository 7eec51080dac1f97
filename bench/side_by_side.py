"""Workers that run the same code by different doors, timed in turn: what bench/*_steps.py share."""
import os
import platform
import statistics
import subprocess
import sys

RESAMPLES = 2000


class Worker:
    """A process that answers each line, the name of a case, with the seconds that a block of it took."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"error: the worker ended:\n{self.process.communicate()[1]}")
        return line

    def time(self, case):
        print(case, file=self.process.stdin, flush=True)
        return float(self.answer())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def serve(cases):
    """A worker's part. `cases` are by name; each is made once and gives what times one block."""
    made = {}
    print("ready", flush=True)
    for line in sys.stdin:
        case = line.strip()
        if case not in made:
            made[case] = cases[case]()
            made[case]()  # compiles
        print(made[case](), flush=True)


def kept_environment():
    """This process's, without what tells frameworks which device to take."""
    ours = ("TPU_", "TORUS_", "JAX_", "XLA_", "TF_")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)}


def bootstrap(ratios, order):
    medians = sorted(statistics.median(order.choices(ratios, k=len(ratios)))
                     for _ in range(RESAMPLES))
    return medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]


def describe(ours, others, order):
    """The median of the ratios of the two's blocks, and that with its 95% confidence interval as text."""
    ratios = [a / b for a, b in zip(ours, others)]
    low, high = bootstrap(ratios, order)
    return statistics.median(ratios), f"{statistics.median(ratios):.3f} ({low:.3f} to {high:.3f})"


def say_machine():
    cpu = [l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")]
    print(f"machine: {cpu[0]}, {len(cpu)} cores, Linux {platform.release()}; load average "
          f"{os.getloadavg()[0]:.1f}", flush=True)


def rounds_of(timers, rounds, order):
    """Times each of `timers`, functions by any key, once a round in random order; the first round is not
    counted. Returns lists of seconds by key."""
    times = {key: [] for key in timers}
    for number in range(-1, rounds):
        for key in order.sample(list(timers), len(timers)):
            seconds = timers[key]()
            if number >= 0:
                times[key].append(seconds)
    return times
