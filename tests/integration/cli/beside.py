"""What one version of the locker command does, met by another: each step of the protocol, on each service, by every mix of the two.

script/mixed runs it: LOCKER_BIN is the command of this version, LOCKER_BESIDE that of the earlier one."""
import concurrent.futures
import itertools
import json
import os
import signal
import tempfile
import time
import unittest

from clitest import LOCKER, Case, Redis, ZooKeeper, timely
from servers import EtcdServer  # the folder of which clitest adds

BESIDE = os.environ["LOCKER_BESIDE"]
AT_ONCE = 6
TTL = 2.0
NAMES = {LOCKER: "new", BESIDE: "old"}


class Party:
    """Commands that all take one key, at one service; each is of the version that `mix` has in its place."""

    def __init__(self, case, uri, key, mix):
        self.case, self.uri, self.key, self.mix = case, uri, key, mix
        self.tokens = []

    def start(self, who, *options):
        return self.case.start("-u", self.uri, *options, self.key, "--", "cat", program=self.mix[who])

    def waits(self, who, *options):
        """It has its place: who comes later stands behind it."""
        before = self.shown()["waiters"]
        running = self.start(who, *options)
        running.event("waiting")
        self.case.until(lambda: self.shown()["waiters"] > before, "a waiter should be shown")
        return running

    def holds(self, who, *options):
        return self.granted(self.start(who, *options))

    def granted(self, running):
        """Tokens grow; those that share a lock may have one."""
        event = running.event("acquired")
        running.token = event["token"]
        if self.tokens and running.token < max(self.tokens):
            raise AssertionError("token %d after %s" % (running.token, self.tokens))
        self.tokens.append(running.token)
        return running

    def ends(self, running, code=0):
        self.case.assertEqual(running.finish(), code, running.error_text())

    def code(self, code, who, *arguments):
        return self.case.code(code, *arguments[:1], "-u", self.uri, *arguments[1:], program=self.mix[who])

    def busy(self, who, *options):
        self.code(75, who, "run", "-n", *options, self.key, "true")

    def shown(self, who=0):
        return json.loads(self.code(0, who, "show", "--json", self.key).stdout)


def exclusion(p):
    first = p.holds(0)
    p.busy(1)
    p.busy(2)
    p.ends(first)
    p.ends(p.holds(1))


def line(p):
    """Three wait, and are served as they came."""
    held = p.holds(0)
    first, second, third = p.waits(1), p.waits(2), p.waits(0)
    p.ends(held)
    for waiter in (first, second, third):
        p.granted(waiter)
        p.busy(1)
        p.ends(waiter)


def readers(p):
    """Who shares the lock does so with all; a writer waits for them, and who comes to share it then waits for the writer."""
    first, second = p.holds(0, "-s"), p.holds(1, "-s")
    writer = p.waits(2)
    late = p.waits(0, "-s")
    p.ends(first)
    p.busy(1)
    p.ends(second)
    p.granted(writer)
    p.busy(0, "-s")
    p.ends(writer)
    p.ends(p.granted(late))


def writer(p):
    """Two that wait to share it come in together."""
    held = p.holds(0)
    first, second = p.waits(1, "-s"), p.waits(2, "-s")
    p.ends(held)
    p.granted(first)
    p.granted(second)
    p.busy(0)
    p.ends(first)
    p.busy(1)
    p.ends(second)


def permits(p):
    first, second = p.holds(0, "-p", "2"), p.holds(1, "-p", "2")
    third, fourth = p.waits(2, "-p", "2"), p.waits(0, "-p", "2")
    p.ends(first)
    p.granted(third)
    p.ends(second)
    p.granted(fourth)
    p.busy(1, "-p", "2")
    p.ends(third)
    p.ends(fourth)


def kinds(p):
    """A key with permits is no lock, and has one number of them."""
    held = p.holds(0, "-p", "2")
    for options in ((), ("-s",), ("-p", "3")):
        p.code(78, 1, "run", "-n", *options, p.key, "true")
    p.ends(held)


def shows(p):
    """All show the same holder, and the same who wait."""
    held = p.holds(0, "--owner", "holder")
    first, second = p.waits(1, "--owner", "one"), p.waits(2, "--owner", "two")
    for who in range(3):
        shown = p.shown(who)
        told = (shown["owner"], shown["token"], [waiter["owner"] for waiter in shown["queue"]])
        p.case.assertEqual(told, ("holder", held.token, ["one", "two"]))
    p.ends(held)
    p.ends(p.granted(first))
    p.ends(p.granted(second))


def breaks(p):
    """Who waits gets it, and the holder is told."""
    held = p.holds(0)
    waiter = p.waits(1)
    p.code(0, 2, "break", p.key)
    held.event("lost")
    p.granted(waiter)
    p.ends(held, 76)
    p.ends(waiter)


def renews(p):
    """Beside one that waits, for three lease times."""
    held = p.holds(0)
    waiter = p.waits(1)
    time.sleep(3 * TTL)
    p.busy(2)
    p.ends(held)
    p.ends(p.granted(waiter))


def dies(p):
    """The holder does, and then one that waits."""
    held = p.holds(0)
    first, second = p.waits(1), p.waits(2)
    held.process.kill()
    p.granted(first)
    third = p.waits(0)
    second.process.kill()
    p.ends(first)
    p.ends(p.granted(third))


def gives_up(p):
    """One in the line does, by its time and by a signal."""
    held = p.holds(0)
    brief, called, last = p.waits(1, "-w", "1"), p.waits(2), p.waits(0)
    p.ends(brief, 75)
    called.process.send_signal(signal.SIGTERM)
    p.ends(called, 128 + signal.SIGTERM)
    p.ends(held)
    p.ends(p.granted(last))


def stands_still(p):
    """A holder that is stopped for longer than its lease knows that another has the lock."""
    held = p.holds(0)
    waiter = p.waits(1)
    held.process.send_signal(signal.SIGSTOP)
    p.granted(waiter)
    held.process.send_signal(signal.SIGCONT)
    held.event("lost")
    p.ends(held, 76)
    p.busy(2)
    p.ends(waiter)


def together(p):
    """Several keys, named in opposite orders."""
    other = p.key + "-too"
    held = p.holds(0, "--also", other)
    waiter = p.case.start("-u", p.uri, "--also", p.key, other, "--", "cat", program=p.mix[1])
    waiter.event("waiting")
    p.code(75, 2, "run", "-n", other, "true")
    p.ends(held)
    waiter.event("acquired")
    p.busy(0)
    p.ends(waiter)


STEPS = (exclusion, line, readers, writer, permits, kinds, shows, breaks, renews, dies, gives_up, stands_still, together)
LOCAL = {"renews", "stands_still"}  # a file's lock has no lease


class Beside(Case):
    @classmethod
    def setUpClass(cls):
        cls.files = tempfile.TemporaryDirectory(prefix="locker-beside-")
        cls.addClassCleanup(cls.files.cleanup)
        cls.services = {"file": "file://%s/locks" % cls.files.name}
        for name, kind in (("redis", Redis), ("zookeeper", ZooKeeper), ("etcd", EtcdServer)):
            server = kind()
            cls.addClassCleanup(server.remove)
            if name == "etcd":
                server.begin()
            cls.services[name] = "%s?ttl=%ds" % (server.uri, TTL)

    def check(self, name):
        """Every step of this service, by every mix."""
        tasks = [(step, mix) for step in STEPS if name != "file" or step.__name__ not in LOCAL
                 for mix in itertools.product((LOCKER, BESIDE), repeat=3) if len(set(mix)) > 1]
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            failures = [failure for failure in pool.map(lambda task: self.fails(name, *task), tasks) if failure]
        self.assertEqual(failures, [], "\n".join(failures))

    def fails(self, name, step, mix):
        case = Step(step, mix, self.services[name], name)
        case.setUp()
        try:
            case.runs()
        except (AssertionError, EOFError, KeyError, ValueError) as failure:
            return "%s: %r" % (case.id(), failure)
        finally:
            case.tearDown()
            case.doCleanups()
        return None


class Step(Case):
    """One step, which may be run again where the machine was late."""

    def __init__(self, step, mix, service, name):
        super().__init__("runs")
        self.step, self.mix, self.service, self.name = step, mix, service, name

    def id(self):
        return ".".join(("beside", self.name, self.step.__name__, *(NAMES[program] for program in self.mix)))

    @timely
    def runs(self):
        key = "%s-%d" % (self.step.__name__, time.monotonic_ns())
        self.step(Party(self, self.service, key, self.mix))


for service in ("file", "redis", "zookeeper", "etcd"):
    setattr(Beside, "test_" + service, lambda self, name=service: self.check(name))

if __name__ == "__main__":
    unittest.main()
