"""The program locker-simulate: built, run, and its results read."""
import collections
import os
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATH = "simulation/locker-simulate"  # in a build folder
DRIVERS = ("redis", "redis-cluster", "zookeeper", "etcd", "memory")
INTERRUPTED = 130  # its exit status

Result = collections.namedtuple("Result", "seed steps grants faults drawn simulated_ns cpu_ns failure")


def build():
    """Where it is."""
    folder = os.path.join(ROOT, "build")
    if not os.path.isdir(folder):
        subprocess.run(("cmake", "-S", ROOT, "--preset", "dev"), check=True, stdout=sys.stderr)
    done = subprocess.run(("cmake", "--build", folder, "--target", "locker-simulate"), stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.stderr.write(done.stdout)
        sys.exit(70)
    return os.path.join(folder, PATH)


def read(line):
    words = line.rstrip("\n").split("\t", 7)
    return Result(*map(int, words[:7]), words[7])


def results(command):
    """Of each seed, as they come. A signal that ends us ends the program first, and what it has told is told."""
    with subprocess.Popen((*command, "--results"), stdout=subprocess.PIPE, text=True) as child:
        before = {number: signal.signal(number, lambda *_: child.terminate()) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            for line in child.stdout:
                yield read(line)
            if child.wait() not in (0, 1, INTERRUPTED, -signal.SIGTERM):
                sys.exit(child.returncode if child.returncode > 0 else 71)
        finally:
            child.terminate()
            for number, handler in before.items():
                signal.signal(number, handler)


def again(driver, seed, limits=""):
    return f"script/simulate --driver {driver} --seed {seed}{limits} --trace -"


class Totals:
    """Of results, and their words."""

    def __init__(self):
        self.began = time.monotonic()
        self.seeds = self.failures = 0
        self.simulated = 0.0

    def add(self, result):
        self.seeds += 1
        self.failures += result.failure != ""
        self.simulated += result.simulated_ns / 1e9

    def __str__(self):
        real = max(time.monotonic() - self.began, 0.001)
        return (f"{self.seeds} seeds, {self.simulated:.0f} s simulated in {real:.1f} s "
                f"({self.simulated / real:.0f} times real time), {self.failures} failures")
