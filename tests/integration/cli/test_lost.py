"""The loss of a lease under locker run: acted on by the local deadline D, not by a message."""
import contextlib
import ctypes
import os
import select
import signal
import sys
import time
import unittest

from clitest import LIMIT, RedisCase, fork_as, timely
from told import report_skip

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000  # of waitpid(): a thread that is no child, too

# Says when TERM came, and lives on; its parent's death or KILL ends it.
STUBBORN = """
import signal, sys, time
def told(number, frame):
    print("TERM %d" % (time.time() * 1000), flush=True)
signal.signal(signal.SIGTERM, told)
print("ready", flush=True)
while True:
    signal.pause()
"""


# Prints its number. One of its group ignores TERM and has a parent that has left the group, and lives while standard
# input is open: nobody but that parent hears of its end.
WITH_A_STRANGER = """
import os, signal
ready, tell = os.pipe()
if os.fork() == 0:
    member = os.fork()
    if member == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.close(0)
        os.write(tell, b"%d\\n" % os.getpid())
        while True:
            signal.pause()
    os.setsid()
    os.waitpid(member, 0)
    os.read(0, 1)
else:
    member = int(os.read(ready, 20))
    print(os.getpid(), member, flush=True)
    signal.pause()
"""


def number_is_free(number):
    """Return whether a new process can have this number. Skip the test where numbers can't be chosen."""
    try:
        pid = fork_as(number)
    except FileExistsError:
        return False
    except OSError:
        report_skip("the number of a process", "not allowed to choose it, which takes root")
        raise unittest.SkipTest("reported")
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return True


class Halted:
    """A thread of a process of ours stands still."""

    def __init__(self, tid):
        self.tid = tid

    def ask(self, request):
        trace = ctypes.CDLL(None, use_errno=True).ptrace
        trace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        if trace(request, self.tid, None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    def __enter__(self):
        try:
            self.ask(PTRACE_SEIZE)
        except PermissionError:
            report_skip("a thread that stands still", "not allowed to trace a process of one's own")
            raise unittest.SkipTest("reported")
        self.ask(PTRACE_INTERRUPT)
        os.waitpid(self.tid, WALL)

    def __exit__(self, *unused):
        self.ask(PTRACE_DETACH)


def let_pass(seconds):
    """For tests of what time does."""
    select.select([], [], [], seconds)


class Taken(RedisCase):
    """The service says that the lock is not ours any more."""

    @timely
    def test_deleted(self):
        running = self.hold("k", "-t", "1500ms")
        self.assertEqual(self.redis.ask("DEL", "k"), ":1")
        self.assertEqual(running.process.wait(LIMIT), 76)
        self.assertIn("lost the lock 'k'", running.error_text())
        events = running.events()
        self.assertEqual([e["event"] for e in events], ["lost", "exited", "released"])
        self.assertEqual((events[1]["signal"], events[2]["status"]), (signal.SIGTERM, "lost"))

    def test_replaced(self):
        running = self.hold("k", "-t", "1500ms")
        self.redis.ask("SET", "k", "another")
        self.assertEqual(running.process.wait(LIMIT), 76)
        self.assertEqual(self.redis.ask("GET", "k"), "another")
        self.redis.ask("DEL", "k")

    def test_first_seen_at_the_release(self):
        running = self.hold("k", "-t", "60s")
        self.redis.ask("SET", "k", "another")
        self.assertEqual(running.finish(), 76)
        self.assertEqual(self.redis.ask("GET", "k"), "another")
        self.redis.ask("DEL", "k")
        running = self.hold("k", "-t", "60s", "--lost-exit-code", "0")
        self.redis.ask("DEL", "k")
        self.assertEqual(running.finish(), 0)

    def test_broken(self):
        running = self.hold("k", "-t", "1500ms")
        self.code(0, "break", "k")
        self.assertEqual(running.process.wait(LIMIT), 76)

    def test_kill_comes_though_the_loop_stands_still(self):
        for uri in self.uri, "file://%s/locks" % self.directory:
            self.env["LOCKER_URI"] = uri
            running = self.start("-k", "1s", "k", "--", "sh", "-c", "trap '' TERM; echo $$; exec sleep 60")
            end = os.pidfd_open(int(running.output.next()))
            self.addCleanup(os.close, end)
            self.locker("break", "k")
            running.event("lost")
            with Halted(running.pid):
                self.assertTrue(select.select([end], [], [], LIMIT)[0], "the command lives on without %s" % uri)
            self.assertEqual(running.process.wait(LIMIT), 76)

    @timely
    def test_the_process_group_number_is_not_reused_between_term_and_kill(self):
        running = self.start("-t", "60s", "-k", "30s", "k", "--", sys.executable, "-c", WITH_A_STRANGER)
        command, member = [int(number) for number in running.output.next().split()]
        end = os.pidfd_open(command)
        self.code(0, "break", "k")
        self.assertTrue(select.select([end], [], [], LIMIT)[0], "TERM did not end it")
        os.close(end)
        let_pass(0.2)
        self.assertIsNone(running.process.poll())  # the member is left
        running.process.send_signal(signal.SIGSTOP)
        os.kill(member, signal.SIGKILL)
        self.assert_gone(member)
        let_pass(0.2)
        self.assertFalse(number_is_free(command))
        running.process.send_signal(signal.SIGCONT)
        self.assertEqual(running.process.wait(LIMIT), 76)


class Many(RedisCase):
    @timely
    def test_a_signal_goes_to_a_group_once(self):
        """However many it has: a signal to a group takes the longer the more there are."""
        running = self.start("-k", "100ms", "k", "--", os.environ["TREE_BIN"], "many", "f(%sp)" % (2000 * "i"))
        running.output.next()
        self.locker("break", "k")
        end = os.pidfd_open(running.pid)
        self.addCleanup(os.close, end)
        self.assertTrue(select.select([end], [], [], LIMIT)[0], "it signals without end")
        with open("/proc/%d/stat" % running.pid) as stat:
            used = int(stat.read().rsplit(")", 1)[1].split()[12]) / os.sysconf("SC_CLK_TCK")
        self.assertEqual(running.process.wait(), 76)
        self.assertLess(used, 0.7)  # seconds of a processor in the kernel


class Silent(RedisCase):
    """The service doesn't answer any more."""

    def setUp(self):
        super().setUp()
        self.env["LOCKER_URI"] = self.uri + "?command_timeout=500ms"
        self.addCleanup(self.redis.thaw)

    @timely
    def test_term_before_the_deadline_and_kill_just_before_it(self):
        running = self.start("-t", "3s", "-k", "1s", "k", "--", sys.executable, "-c", STUBBORN)
        self.assertEqual(running.output.next(), "ready")
        self.redis.freeze()
        lost = running.event("lost")
        deadline = lost["time_unix_ms"] + lost["remaining_ms"]
        self.assertTrue(500 <= lost["remaining_ms"] <= 1000, lost)
        self.assertLess(abs(int(running.output.next().split()[1]) - (deadline - 1000)), 600)
        exited = running.event("exited")
        self.assertEqual(exited["signal"], signal.SIGKILL)
        self.assertLess(exited["time_unix_ms"], deadline)
        self.assertGreater(exited["time_unix_ms"], deadline - 400)
        self.assertEqual(running.process.wait(LIMIT), 76)

    @contextlib.contextmanager
    def loop_stands_still(self):
        """Run a command that TERM doesn't end, until the lock is about to be lost. The block must see the command's end in time."""
        running = self.start("-t", "3s", "-k", "1s", "k", "--", "sh", "-c", "trap '' TERM; echo $$; exec sleep 60")
        end = os.pidfd_open(int(running.output.next()))
        self.addCleanup(os.close, end)
        self.redis.freeze()
        lost = running.event("lost")
        deadline = (lost["time_unix_ms"] + lost["remaining_ms"]) / 1000
        with Halted(running.pid):
            yield running.pid, deadline
            ended, _, _ = select.select([end], [], [], max(0.0, deadline - time.time()))
            self.assertTrue(ended, "the command has outlived the lease")
        self.assertEqual(running.process.wait(LIMIT), 76)

    @timely
    def test_kill_is_in_time_though_the_loop_stands_still(self):
        """It may be busy: with a walk through many processes, or with what it says."""
        with self.loop_stands_still():
            pass

    @timely
    def test_kill_is_sent_though_its_thread_is_late(self):
        """The machine may be busy: the thread wakes up 20 ms after KILL was due, which is 100 ms before the lease's end."""
        with self.loop_stands_still() as (pid, deadline), contextlib.ExitStack() as halted:
            for tid in map(int, os.listdir("/proc/%d/task" % pid)):
                if tid != pid:
                    halted.enter_context(Halted(tid))
            let_pass(deadline - 0.08 - time.time())

    @timely
    def test_kill_is_in_time_though_the_loop_has_not_seen_the_loss(self):
        running = self.start("-t", "3s", "-k", "1s", "k", "--", "sh", "-c", "trap '' TERM; echo $$; exec sleep 60")
        end = os.pidfd_open(int(running.output.next()))
        self.addCleanup(os.close, end)
        with Halted(running.pid):
            self.redis.freeze()
            self.assertTrue(select.select([end], [], [], 3)[0], "the command has outlived the lease")
        self.assertEqual(running.process.wait(LIMIT), 76)

    def test_a_command_does_not_start_when_the_lock_is_gone(self):
        """Nobody reads what locker says before the start, until the lease has ended."""
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b" " * 4096)
        os.set_blocking(writer, True)
        running = self.start("-v", "-t", "1s", "k", "--", "echo", "started", stderr=writer)
        os.close(writer)
        while self.redis.ask("EXISTS", "k") != ":1":
            let_pass(0.01)
        self.redis.freeze()
        let_pass(1.5)
        said = b""
        while more := os.read(reader, 65536):
            said += more.strip()
        self.assertIn(b"before the command was started", said)
        self.assertEqual(running.process.wait(LIMIT), 76)
        self.assertEqual(running.output.all(), [])

    @timely
    def test_unread_messages_do_not_delay_the_kill(self):
        script = "trap '' TERM; setsid sh -c 'echo $$; sleep 60' & yes >&2 &  echo $$; wait"
        running = self.start("-t", "3s", "-k", "1s", "k", "--", "sh", "-c", script)
        ends = [os.pidfd_open(int(running.output.next())) for _ in range(2)]
        for end in ends:
            self.addCleanup(os.close, end)
        self.redis.freeze()
        for end in ends:
            self.assertTrue(select.select([end], [], [], 10)[0], "it waits for a reader")
        self.assertEqual(running.process.wait(LIMIT), 76)

    @timely
    def test_a_command_that_obeys(self):
        running = self.hold("k", "-t", "3s", "-k", "1s")
        self.redis.freeze()
        lost = running.event("lost")
        exited = running.event("exited")
        self.assertEqual(exited["signal"], signal.SIGTERM)
        self.assertLess(exited["time_unix_ms"], lost["time_unix_ms"] + lost["remaining_ms"])
        self.assertEqual(running.process.wait(LIMIT), 76)

    @timely
    def test_the_process_group_number_is_not_reused_before_the_release(self):
        running = self.start("-t", "3s", "-k", "1s", "k", "--", "sh", "-c", "echo $$; exec sleep 60")
        number = int(running.output.next())
        self.redis.freeze()
        running.event("exited")
        self.assertFalse(number_is_free(number))
        self.assertEqual(running.process.wait(LIMIT), 76)

    @timely
    def test_the_exit_waits_for_no_answer_after_the_deadline(self):
        self.env["LOCKER_URI"] = self.uri + "?command_timeout=20s"
        running = self.hold("k", "-t", "2s", "-k", "500ms")
        self.redis.freeze()
        exited = running.event("exited")
        self.assertEqual(running.process.wait(LIMIT), 76)
        self.assertLess(time.time() * 1000 - exited["time_unix_ms"], 5000)

    @timely
    def test_a_short_outage_stops_nothing(self):
        running = self.hold("k", "-t", "3s", "-k", "500ms")
        self.redis.freeze()
        let_pass(1.3)  # a renewal is missed: it is due every second
        self.redis.thaw()
        let_pass(3.0)  # the lease would have ended
        self.code(75, "run", "-n", "k", "true")
        self.assertEqual(running.finish(), 0)
        self.assertEqual([e["event"] for e in running.events()], ["exited", "released"])

    def test_ignore(self):
        running = self.hold("k", "-t", "1s", "--on-lost", "ignore")
        self.redis.freeze()
        running.event("lost")
        let_pass(1.0)
        self.assertIsNone(running.process.poll())
        self.redis.thaw()
        self.assertEqual(running.finish(), 76)
        self.assertEqual(running.event("exited")["code"], 0)

    def test_a_release_that_only_fails_keeps_the_code_and_warns(self):
        running = self.start("-t", "30s", "k", "--", "sh", "-c", "cat; exit 5")
        running.event("acquired")
        self.redis.freeze()
        self.assertEqual(running.finish(), 5)
        self.assertEqual(running.event("released")["status"], "unknown")
        self.assertIn("warning: cannot release 'k'", running.error_text())

    def test_the_exit_codes_own_number(self):
        running = self.hold("k", "-t", "1s", "--lost-exit-code", "42")
        self.redis.freeze()
        self.assertEqual(running.process.wait(LIMIT), 42)


class Stopped(RedisCase):
    @timely
    def test_a_stopped_locker_finds_the_lock_gone_and_kills_at_once(self):
        running = self.start("-t", "3s", "-k", "1400ms", "k", "--", sys.executable, "-c", STUBBORN)
        self.assertEqual(running.output.next(), "ready")
        running.process.send_signal(signal.SIGSTOP)
        rival = self.hold("k")  # gets it when the lease has ended
        start = time.monotonic()
        running.process.send_signal(signal.SIGCONT)
        self.assertEqual(running.process.wait(LIMIT), 76)
        self.assertLess(time.monotonic() - start, 1.2)  # not after --kill-after
        self.code(75, "run", "-n", "k", "true")
        self.assertEqual(rival.finish(), 0)

    @timely
    def test_a_healthy_lock_is_kept_over_many_leases(self):
        running = self.hold("k", "-t", "600ms")
        self.code(75, "run", "-w", "3s", "k", "true")
        self.assertEqual(running.finish(), 0)


if __name__ == "__main__":
    unittest.main()
