"""What a test reports to script/test: that it was skipped, and that it was run again because the machine was late.

Each is a line in the file that LOCKER_TEST_SKIPPED or LOCKER_TEST_RERUNS names."""
import os
import sys
import threading
import time


def _append(variable, line):
    if os.environ.get(variable):
        with open(os.environ[variable], "a") as file:
            file.write(line + "\n")


def report_skip(what, why):
    """Report that a test is skipped. Where skips are refused, as in CI, it fails."""
    line = "%s: %s" % (what, why)
    if os.environ.get("LOCKER_TEST_SKIPS") == "refuse":
        raise AssertionError(line + "; skips are refused (LOCKER_TEST_SKIPS)")
    print("SKIPPED: " + line, file=sys.stderr)
    _append("LOCKER_TEST_SKIPPED", line)


def report_rerun(test, why):
    """Report that a test is run again; the name of a test is one word. The last lines of a long text say what was late."""
    program = os.path.basename(sys.argv[0]).removesuffix(".py")
    text = " ".join(str(why).split())
    line = "%s %s" % (test.replace("__main__", program), text if len(text) < 400 else text[:150] + " ... " + text[-230:])
    print("RERUN: " + line, file=sys.stderr)
    _append("LOCKER_TEST_RERUNS", line)


class Lateness:
    """How late this machine is, measured by a thread that sleeps for 10 ms again and again. `with` begins and ends it."""

    EVERY = 0.01

    def __enter__(self):
        self.late = self.worst = 0.0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._measure)
        self._began = _ticks()
        self._thread.start()
        return self

    def __exit__(self, *unused):
        self._ends.set()
        self._thread.join()

    def _measure(self):
        while not self._ends.is_set():
            due = time.monotonic() + self.EVERY
            time.sleep(self.EVERY)
            late = time.monotonic() - due
            self.late += late
            self.worst = max(self.worst, late)

    def is_busy(self):
        """True if the processors had something to do for more than a quarter of the time."""
        idle, everything = (now - before for now, before in zip(_ticks(), self._began))
        return 4 * idle < 3 * everything

    def __str__(self):
        return "the machine was late by %d ms in all, %d ms at worst" % (self.late * 1000, self.worst * 1000)


def _ticks():
    """How long all processors have been idle, and in all (proc_stat(5))."""
    with open("/proc/stat") as file:
        kinds = [int(number) for number in file.readline().split()[1:9]]
    return kinds[3], sum(kinds)
