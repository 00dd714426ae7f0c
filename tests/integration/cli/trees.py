#!/usr/bin/env python3
"""Random trees of processes under locker run: what becomes of them, and of the lock, when the command is told to end (term), when
the lock is broken (break), when its lease can't be renewed (loss), and when the command ends by itself (normal).

    trees.py [--trees N] [--seed S] [--lanes L] [--only KIND] [--tree SPEC]

Each tree is run in each of the four ways. The letters of a tree are explained in tree.c.

- term: whoever gets the lock next finds no process of the tree. A process that may not be signalled (root's, while locker run is
  another user's) is reported, and the lock stays held until it has ended.
- break: when locker run has ended, no process is left but reported ones.
- loss: at the end of the lease no process is left but reported ones.
- normal: the lock is free although processes of the tree live.
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

from clitest import LIMIT, RUNS, Case, Redis, Running
from told import Lateness, report_rerun, report_skip

TREE = os.environ["TREE_BIN"]
LATE = "at the end of the lease"
LEAVES = "ssssiihb"
KINDS = ("term", "break", "loss", "normal")


def grow(draw, setuid, depth, leaves=LEAVES):
    """A random tree below a process. Among root's processes none forks for ever: nobody could report all of them."""
    if depth == 0 or draw.random() < 0.15:
        return draw.choice(leaves)
    letter = draw.choice("ffwwxddgeettll" + ("u" if setuid else ""))
    count = draw.randint(1, 3) if letter in "fwx" else 1
    return "%s(%s)" % (letter, "".join(grow(draw, setuid, depth - 1, "si" if letter == "u" else leaves) for _ in range(count)))


def processes(tree, but=0):
    """The living processes of this tree: {pid: user}."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                if tree.encode() not in file.read().split(b"\0") or int(pid) == but:
                    continue
            with open("/proc/%s/status" % pid) as file:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
            if status["State"][0] not in "ZX":
                found[int(pid)] = int(status["Uid"].split()[2])
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


class Lane(Case):
    """One user's runs, with a directory and a Redis server of its own."""

    def __init__(self, number):
        super().__init__("run_tree")
        self.root = os.geteuid() == 0
        self.user = 58000 + os.getpid() % 1000 + number if self.root else os.geteuid()
        self.count = 0

    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o755)
        self.program = self.everybodys() if self.root else os.environ["LOCKER_BIN"]
        folder = os.path.dirname(self.program) if self.root else self.directory
        self.job = shutil.copy(TREE, os.path.join(folder, "tree"))
        os.chmod(self.job, 0o755)
        setuid = shutil.copy(TREE, os.path.join(folder, "tree-setuid"))
        os.chmod(setuid, 0o4755)
        self.env.update(TREE_LOCKER=self.program, TREE_SETUID=setuid)
        os.mkdir(os.path.join(self.directory, "locks"), 0o700)
        os.chown(os.path.join(self.directory, "locks"), self.user, -1)
        self.redis = Redis()
        self.addCleanup(self.redis.remove)

    def processes(self, tree):
        return processes(tree, self.running.pid)

    def rival(self, *options):
        """The exit code of another locker run for the same key."""
        return subprocess.run([self.program, "run", "-q", *options, "k", "true"], env=self.env, user=self.user,
                              timeout=LIMIT).returncode

    def run_timely(self, spec, kind, pause):
        """A machine that is busy with other things may be late with KILL: then the run counts for nothing, see clitest.timely."""
        for left in reversed(range(2 * RUNS)):
            with Lateness() as lateness:
                wrong = self.run_tree(spec, kind, pause)
                if not wrong or not wrong.startswith(LATE) or not left or not lateness.is_busy():
                    return wrong
                report_rerun("trees:%s:%s" % (kind, spec), "%s; %s" % (wrong, lateness))

    def run_tree(self, spec, kind, pause):
        """Run it; returns what is wrong, or None."""
        self.count += 1
        tree = "%d-%d-%d" % (os.getpid(), self.user, self.count)
        self.env["LOCKER_URI"] = "file://" + os.path.join(self.directory, "locks")
        self.env["LOCKER_URI"] = self.redis.uri if kind == "loss" else self.env["LOCKER_URI"]
        options = ["-t", "2s", "-k", "500ms"] if kind == "loss" else ["-k", "400ms"]
        running = Running(options + ["k", "--", self.job, tree, spec], self.env, user=self.user,
                          program=self.program, stdout=subprocess.DEVNULL)
        self.running = running
        try:
            try:
                running.event("acquired")
            except EOFError:
                return running.error_text()
            time.sleep(pause)
            return getattr(self, {"break": "break_"}.get(kind, kind))(running, tree)
        finally:
            self.redis.thaw()
            running.stop()
            self.end_all(tree)

    def end_all(self, tree):
        end = time.monotonic() + LIMIT
        while self.processes(tree):
            if time.monotonic() > end:
                raise AssertionError("the test can't end %s" % self.processes(tree))
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in self.processes(tree):
                    try:
                        if os.getpgid(pid) != os.getpgrp():
                            os.killpg(os.getpgid(pid), number)
                        os.kill(pid, number)
                    except ProcessLookupError:
                        pass

    def free(self):
        code = self.rival("-n")
        return None if code == 0 else "the lock is not free: %d" % code

    def unreported(self, running, tree, events):
        """The processes that are left and should not be: all of the user's, and others that no status line names."""
        told = {event["pid"] for event in events if event["event"] == "refused"}
        left = self.processes(tree)
        return {pid: user for pid, user in left.items() if user == self.user or pid not in told}

    def await_end(self, running, seconds):
        try:
            running.process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            return False

    def command(self, running):
        try:
            with open("/proc/%d/task/%d/children" % (running.pid, running.pid)) as file:
                return [int(pid) for pid in file.read().split()]
        except FileNotFoundError:
            return []

    def term(self, running, tree):
        running.process.send_signal(signal.SIGTERM)
        if not self.await_end(running, 0.9):
            for pid, user in self.processes(tree).items():  # it was told to end and decides itself, or is root's
                if user == self.user and pid in self.command(running)[:1]:
                    os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + LIMIT
        while not self.await_end(running, 0.1):
            mine = [pid for pid, user in self.processes(tree).items() if user == self.user]
            if not mine:
                break
            if time.monotonic() > end:
                return "after TERM: still there: %s" % mine
        others = self.processes(tree)
        if others:
            if set(others.values()) == {self.user}:
                return "after TERM the lock is free and lives: %s" % others
            if not self.await_end(running, 0.3) and self.rival("-n") != 75:
                return "after TERM the lock is free and lives: %s" % others
            if running.process.returncode is not None and self.processes(tree):
                return "after TERM locker run has ended and lives: %s" % self.processes(tree)
            told = set()
            while self.processes(tree).keys() - told and time.monotonic() < end:
                told.add(running.event("refused")["pid"])
            self.end_all(tree)
            if not self.await_end(running, LIMIT):
                return "locker run does not end"
        if self.processes(tree):
            return "locker run has ended, and lives: %s" % self.processes(tree)
        return self.free()

    def broken(self, running, tree, events):
        if not self.await_end(running, 0.9):
            # A command that is root's is waited for.
            for pid in self.command(running):
                if self.processes(tree).get(pid) not in (None, self.user):
                    os.kill(pid, signal.SIGKILL)
        if not self.await_end(running, LIMIT):
            return "locker run does not end: %s" % self.processes(tree)
        events += running.events()
        left = self.unreported(running, tree, events)
        if left:
            return "left, of user %d: %s, reported: %s" % (self.user, left, events)
        return None if running.process.returncode == 76 else "exit code %d" % running.process.returncode

    def break_(self, running, tree):
        subprocess.run([self.program, "break", "k"], env=self.env, user=self.user, stdout=subprocess.DEVNULL, check=True)
        return self.broken(running, tree, [])

    def loss(self, running, tree):
        self.redis.freeze()
        lost = running.event("lost")
        time.sleep(max(0.0, (lost["time_unix_ms"] + lost["remaining_ms"]) / 1000 - time.time()))
        mine = [pid for pid, user in self.processes(tree).items() if user == self.user]
        if mine:
            return LATE + ": %s" % mine
        return self.broken(running, tree, [lost])

    def normal(self, running, tree):
        """The command's end, unless it ends by itself, is the test's to make."""
        end = time.monotonic() + LIMIT
        while not self.await_end(running, 0.1):
            if time.monotonic() > end:
                return "locker run does not end"
            for pid in self.command(running)[:1]:  # as if it crashed; its end by a signal to end is another case
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        return self.free()


def work(lane, jobs, results):
    lane.setUp()
    try:
        while jobs:
            index, spec, kind, pause = jobs.pop()
            try:
                wrong = lane.run_timely(spec, kind, pause)
            except (AssertionError, EOFError, OSError, subprocess.SubprocessError) as error:
                wrong = "%s: %s" % (type(error).__name__, error)
            results.append((index, spec, kind, wrong))
            if wrong:
                print("tree %d %s %s: %s" % (index, spec, kind, wrong), flush=True)
    finally:
        lane.doCleanups()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=3)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--tree")
    options = parser.parse_args()
    setuid = os.geteuid() == 0
    if not setuid:
        report_skip("set-user-ID programs in trees", "only root can make one of another user")
    jobs = []
    for index in range(options.trees):
        draw = random.Random(options.seed * 1000003 + index)
        spec = options.tree or grow(draw, setuid, 4)
        lasting = spec if spec[0] in "sibf" else "f(%s)" % spec  # a command that ends by itself is another case
        pause = draw.choice((0.0, 0.005, 0.02, 0.1))
        jobs += [(index, spec if kind == "normal" else lasting, kind, pause) for kind in KINDS if options.only in (None, kind)]
    jobs.reverse()
    total, results = len(jobs), []
    signal.signal(signal.SIGTERM, lambda number, frame: jobs.clear())  # each lane ends what it has begun
    lanes = [threading.Thread(target=work, args=(Lane(number), jobs, results)) for number in range(options.lanes)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    bad = sum(1 for result in results if result[3])
    print("%d trees, seed %d: %d runs, %d of %d wrong" % (options.trees, options.seed, len(results), bad, total))
    return 1 if bad or len(results) != total else 0


if __name__ == "__main__":
    sys.exit(main())
