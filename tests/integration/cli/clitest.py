"""What the tests of the locker command share: running it, gates, and a Redis server of one's own.

Nothing here sleeps to wait for something: a test waits for a line of --status-fd, for a line that the command
under the lock prints, or for a process to end, each with a time limit that fails the test.
"""
import ctypes
import functools
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from servers import RedisServer, ZooServer  # noqa: E402
from told import Lateness, report_rerun  # noqa: E402

LOCKER = os.environ["LOCKER_BIN"]
CLONE3 = 435  # the system call's number, with which the caller may choose the child's
LIMIT = 30.0
RUNS = 5
LATE = 0.02

KEEP = {name: value for name, value in os.environ.items()
        if (not name.startswith("LOCKER_") or name.startswith("LOCKER_TEST_")) and not name.startswith("XDG_") and name != "HOME"}


def timely(test):
    """For a test that says how long something may take, or looks at what is so for a while. A machine that is busy with other
    tests may be late at any line, by seconds. A test that fails while the processors had something to do for more than a quarter
    of the time, and threads woke up late by LATE in all, is run again, at most four times; each rerun is reported. See
    timely.h, too."""

    @functools.wraps(test)
    def runs(self):
        for left in reversed(range(RUNS)):
            with Lateness() as lateness:
                try:
                    return test(self)
                except (AssertionError, EOFError) as missed:
                    if not left or not lateness.is_busy() or lateness.late < LATE:
                        raise
                    report_rerun(self.id(), "%s; %s" % (missed, lateness))
            self.tearDown()
            self.doCleanups()
            self.setUp()

    return runs


def fork_as(number):
    """As os.fork(), but the child has this number."""
    numbers = (ctypes.c_int * 1)(number)
    arguments = (ctypes.c_uint64 * 11)(0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(numbers), 1, 0)
    pid = ctypes.PyDLL(None, use_errno=True).syscall(CLONE3, arguments, ctypes.sizeof(arguments))
    if pid < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return pid


class Lines:
    """The lines that come out of a descriptor, read with a time limit."""

    def __init__(self, fd):
        self.fd = fd
        self.rest = b""

    def next(self, limit=LIMIT):
        end = time.monotonic() + limit
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.fd], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise AssertionError("no line within %.1f s; so far: %r" % (limit, self.rest))
            chunk = os.read(self.fd, 65536)
            if not chunk:
                raise EOFError("the descriptor was closed; the rest: %r" % self.rest)
            self.rest += chunk
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode()

    def all(self, limit=LIMIT):
        lines = []
        try:
            while True:
                lines.append(self.next(limit))
        except EOFError:
            return lines


class Running:
    """A locker run in the background, with its status lines, its standard input and output."""

    def __init__(self, arguments, env, **popen):
        status_read, status_write = os.pipe()
        os.set_inheritable(status_write, True)
        self.process = subprocess.Popen(
            [popen.pop("program", LOCKER), "run", "--status-fd", str(status_write)] + arguments, env=env,
            stdin=popen.pop("stdin", subprocess.PIPE), stdout=popen.pop("stdout", subprocess.PIPE),
            stderr=popen.pop("stderr", subprocess.PIPE), pass_fds=[status_write], **popen)
        os.close(status_write)
        self.status = Lines(status_read)
        self.output = Lines(self.process.stdout.fileno()) if self.process.stdout else None

    @property
    def pid(self):
        return self.process.pid

    def event(self, name):
        """Read on until the event of this name and return it."""
        while True:
            event = json.loads(self.status.next())
            if event["event"] == name:
                return event

    def events(self):
        """Those that are left, until the end."""
        return [json.loads(line) for line in self.status.all()]

    def finish(self):
        """Let a command that reads its input to the end go, and return the exit code."""
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        return self.process.wait(LIMIT)

    def error_text(self):
        return self.process.stderr.read().decode()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait(LIMIT)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                try:
                    stream.close()
                except OSError:
                    pass
        os.close(self.status.fd)


class Case(unittest.TestCase):
    """A private directory, and an environment that knows of no lock service but the one the test names."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="locker-cli-")
        self.addCleanup(shutil.rmtree, self.directory, True)
        self.uri = "file://" + os.path.join(self.directory, "locks")
        self.env = dict(KEEP, HOME=self.directory, LOCKER_URI=self.uri,
                        SHELL="/bin/sh")

    def everybodys(self):
        """A copy of the command and its library where any user may run it: the tree may be this user's alone, as below
        /root."""
        folder = tempfile.mkdtemp(prefix="locker-cli-")
        self.addCleanup(shutil.rmtree, folder, True)
        os.chmod(folder, 0o755)
        above = os.path.dirname(os.path.dirname(LOCKER))
        for library in os.listdir(above):
            if library.startswith("liblocker.so"):
                shutil.copy(os.path.join(above, library), folder)
        if os.path.isdir(os.path.join(above, "locker")):
            shutil.copytree(os.path.join(above, "locker"), os.path.join(folder, "locker"))
        os.mkdir(os.path.join(folder, "tools"), 0o755)
        return shutil.copy(LOCKER, os.path.join(folder, "tools"))

    def until(self, condition, what):
        end = time.monotonic() + LIMIT
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.01)

    def locker(self, *arguments, program=LOCKER, env=None, **options):
        return subprocess.run([program] + list(arguments), env=env or self.env, timeout=LIMIT,
                              stdin=options.pop("stdin", subprocess.DEVNULL), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, **options)

    def code(self, expected, *arguments, **options):
        """Run it, check the exit code, return what it said."""
        done = self.locker(*arguments, **options)
        self.assertEqual(done.returncode, expected, "%s: %s%s" % (arguments, done.stdout, done.stderr))
        return done

    def wrong(self, expected, names, *arguments, **options):
        """A failure is one line that starts with "locker: " and names what is wrong."""
        done = self.code(expected, *arguments, **options)
        self.assertEqual(done.stdout, "")
        self.assertTrue(done.stderr.startswith("locker: "), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(names, done.stderr)
        return done

    def starve(self, *arguments):
        """Whatever can't be opened for want of a descriptor, what to do is said."""
        limit = resource.RLIMIT_NOFILE
        for count in range(4, 30):
            done = self.locker(*arguments, preexec_fn=lambda: resource.setrlimit(limit, (count, count)))
            if done.returncode == 0:
                return
            self.assertEqual(done.returncode, 71, done.stderr)
            self.assertIn("Too many open files", done.stderr)
            self.assertIn("raise the limit on open files (ulimit -n)", done.stderr)
        self.fail("30 descriptors are not enough")

    def start(self, *arguments, env=None, **popen):
        running = Running(list(arguments), env or self.env, **popen)
        self.addCleanup(running.stop)
        return running

    def hold(self, key, *options, **more):
        """A locker run that holds the key until finish()."""
        running = self.start(*options, key, "--", "cat", **more)
        running.event("acquired")
        return running

    def waits_for_room(self, server, port, most, words, hasty=""):
        """A command that may wait waits for a server that has as many connections as it takes, and no other does.

        hasty: the URI's parameters for those that are to fail.
        """
        uri = server + hasty
        others = []
        while len(others) < most or self.locker("ping", "-u", uri).returncode == 0:  # one that asked it before was still counted
            self.assertLess(len(others), 2 * most)
            others.append(socket.create_connection(("127.0.0.1", port)))
            self.addCleanup(others[-1].close)
        self.wrong(69, words, "ping", "-u", uri)
        self.wrong(69, words, "run", "-n", "-u", uri, "k", "true")
        with subprocess.Popen([LOCKER, "run", "-v", "-w", "60s", "-u", server, "k", "true"], env=self.env, stderr=subprocess.PIPE,
                              text=True) as waiter:
            self.assertRegex(waiter.stderr.readline(), "waiting for a connection: .*" + words)
            for other in others:
                other.close()
            said = waiter.stderr.read()
            self.assertEqual(waiter.wait(LIMIT), 0, said)

    def assert_gone(self, pid):
        """The process ends within the time limit (a zombie has ended)."""
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            ready, _, _ = select.select([fd], [], [], LIMIT)
            self.assertTrue(ready, "process %d is still there" % pid)
        finally:
            os.close(fd)


class Redis(RedisServer):
    """One that keeps nothing on a disk, and serves."""
    options = ["--appendonly", "no"]

    def __init__(self):
        super().__init__()
        self.begin()


class ZooKeeper(ZooServer):
    """One that waits for no disk, and serves."""
    options = ["-Dzookeeper.forceSync=no"]

    def __init__(self):
        super().__init__()
        self.begin()


class RedisCase(Case):
    """With a server for each test class."""

    @classmethod
    def setUpClass(cls):
        cls.redis = Redis()
        cls.addClassCleanup(cls.redis.remove)

    def setUp(self):
        super().setUp()
        self.uri = self.redis.uri
        self.env["LOCKER_URI"] = self.uri
        self.redis.ask("FLUSHALL")
