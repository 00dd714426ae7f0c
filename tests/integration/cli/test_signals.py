"""Signals before and during the wait, and while the command runs; no process is left behind."""
import os
import signal
import subprocess
import sys
import time
import unittest

from clitest import LIMIT, LOCKER, Case

# A member of the command's group, whose parent leaves the group and lives on.
STRANGER = """
import os, signal
if os.fork():
    signal.pause()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
member = os.fork()
if member:
    os.setsid()
    print(os.getpid(), member, flush=True)
signal.pause()
"""

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Waiting(Case):
    def test_a_signal_ends_the_wait(self):
        holder = self.hold("k")
        for number in ENDINGS:
            for wait in ([], ["-w", "1h"]):
                waiter = self.start(*wait, "k", "--", "touch", os.path.join(self.directory, "ran"))
                waiter.event("waiting")
                waiter.process.send_signal(number)
                self.assertEqual(waiter.finish(), 128 + number)
                self.assertEqual(waiter.events(), [])
                self.assertIn(number.name, waiter.error_text())
        self.assertFalse(os.path.exists(os.path.join(self.directory, "ran")))
        holder.finish()
        self.code(0, "run", "-n", "k", "true")

    def test_a_signal_before_the_wait_counts(self):
        """It is blocked until locker takes it in: pending from the very start."""
        self.hold("k")
        for number in ENDINGS:
            def pending(number=number):
                signal.pthread_sigmask(signal.SIG_BLOCK, [number])
                os.kill(os.getpid(), number)

            process = subprocess.Popen([LOCKER, "run", "-q", "k", "true"], env=self.env, preexec_fn=pending)
            self.assertEqual(process.wait(LIMIT), 128 + number)

    def sleepers(self, waiter):
        """Its threads that wait for something, and whether each takes TERM: one that starts takes nothing yet."""
        takes = {}
        for task in os.listdir("/proc/%d/task" % waiter.pid):
            try:
                with open("/proc/%d/task/%s/status" % (waiter.pid, task)) as file:
                    status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
            except (FileNotFoundError, ProcessLookupError):
                continue
            if status["State"].startswith("S"):
                takes[int(task)] = not int(status["SigBlk"], 16) & 1 << (signal.SIGTERM - 1)
        return takes

    def test_one_thread_alone_takes_signals(self):
        """Another may live on while the command runs, and none of its signals may end us then."""
        holder = self.hold("k")
        end = time.monotonic() + LIMIT
        threads = {}
        while len(threads) < 3 or not threads.get(waiter.pid):  # the keeper, too, and who tells of the holder for two seconds
            self.assertLess(time.monotonic(), end)
            waiter = self.start("-v", "k", "--", "true")
            waiter.event("waiting")
            soon = time.monotonic() + 1.0
            threads = {}
            while (len(threads) < 3 or not threads.get(waiter.pid)) and time.monotonic() < soon:
                threads = self.sleepers(waiter)  # the first takes nothing while it starts another
        self.assertEqual([task for task, takes in threads.items() if takes], [waiter.pid])
        holder.finish()
        self.assertEqual(waiter.finish(), 0)

    def test_ignored_signals_stay_ignored(self):
        """As under nohup: the wait goes on."""
        holder = self.hold("k")
        waiter = self.start("k", "--", "true", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        waiter.event("waiting")
        waiter.process.send_signal(signal.SIGHUP)
        holder.finish()
        self.assertEqual(waiter.finish(), 0)

    def test_a_user_signal_while_waiting_is_not_for_the_command(self):
        holder = self.hold("k")
        waiter = self.start("k", "--", "cat")
        waiter.event("waiting")
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH):
            waiter.process.send_signal(number)
        holder.finish()
        waiter.event("acquired")
        self.assertEqual(waiter.finish(), 0)


class Forwarding(Case):
    def test_each_is_forwarded(self):
        for number in ENDINGS + (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH):
            for options in ([], ["--foreground"]):
                running = self.start(*options, "k", "--", "sh", "-c",
                                     "trap 'echo got; exit 7' %s; echo ready; while :; do sleep 60 & wait $!; "
                                     "done" % number.name[3:])
                self.assertEqual(running.output.next(), "ready")
                running.process.send_signal(number)
                self.assertEqual(running.output.next(), "got")
                self.assertEqual(running.process.wait(LIMIT), 7)

    def test_the_commands_end_by_it_is_told(self):
        for number in ENDINGS:
            running = self.hold("k")
            running.process.send_signal(number)
            self.assertEqual(running.process.wait(LIMIT), 128 + number)
            self.assertEqual([e["event"] for e in running.events()], ["exited", "released"])

    def test_the_whole_group_gets_it(self):
        running = self.start("k", "--", "sh", "-c", "sleep 300 & echo $!; wait")
        grandchild = int(running.output.next())
        running.process.send_signal(signal.SIGTERM)
        self.assertEqual(running.process.wait(LIMIT), 143)
        self.assert_gone(grandchild)

    def test_foreground_leaves_the_group_alone(self):
        running = self.start("--foreground", "k", "--", "sh", "-c",
                             "trap '' HUP; sleep 300 & echo $!; ps -o pgid= -p $$ | tr -d ' '; trap - HUP; wait")
        grandchild, group = int(running.output.next()), int(running.output.next())
        self.assertEqual(group, os.getpgid(running.pid))
        running.process.send_signal(signal.SIGTERM)
        self.assertEqual(running.process.wait(LIMIT), 143)
        os.kill(grandchild, 0)
        os.kill(grandchild, signal.SIGKILL)

    def test_ignored_signals_are_not_forwarded(self):
        running = self.start("k", "--", "cat", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        running.event("acquired")
        running.process.send_signal(signal.SIGHUP)
        self.assertEqual(running.finish(), 0)

    def test_the_command_leads_a_group_of_its_own(self):
        running = self.start("k", "--", "sh", "-c", "echo $$; exec cat")
        command = int(running.output.next())
        self.assertEqual(os.getpgid(command), command)
        self.assertEqual(running.finish(), 0)

    def test_killing_locker_kills_the_command(self):
        for options in ([], ["--foreground"]):
            running = self.start(*options, "k", "--", "sh", "-c", "echo $$; exec cat")
            command = int(running.output.next())
            running.process.kill()
            self.assertEqual(running.process.wait(LIMIT), -signal.SIGKILL)
            self.assert_gone(command)

    def test_a_stopped_command_is_left_stopped(self):
        """Without a terminal whoever stopped it continues it."""
        running = self.start("k", "--", "sh", "-c", "echo $$; exec cat")
        command = int(running.output.next())
        os.kill(command, signal.SIGSTOP)
        self.code(75, "run", "-w", "100ms", "k", "true")
        os.kill(command, signal.SIGCONT)
        self.assertEqual(running.finish(), 0)


class Broken(Case):
    """A lock without a lease that is broken by an operator."""

    def test_term_and_76(self):
        running = self.hold("k")
        self.assertIn("broke the lock of", self.code(0, "break", "k").stdout)
        self.assertEqual(running.event("lost")["remaining_ms"], 0)
        self.assertEqual(running.process.wait(LIMIT), 76)
        self.assertEqual([(e["event"], e.get("signal") or e.get("status")) for e in running.events()],
                         [("exited", 15), ("released", "lost")])
        self.assertIn("lost the lock 'k'", running.error_text())

    def test_other_signal_and_code(self):
        running = self.start("--on-lost", "usr1", "--lost-exit-code", "9", "k", "--", "sh", "-c",
                             "trap 'echo got; exit 3' USR1; echo ready; while :; do sleep 60 & wait $!; done")
        self.assertEqual(running.output.next(), "ready")
        self.code(0, "break", "k")
        self.assertEqual(running.output.next(), "got")
        self.assertEqual(running.process.wait(LIMIT), 9)

    def test_kill_follows_for_the_whole_group(self):
        running = self.start("-k", "200ms", "k", "--", "sh", "-c",
                             "trap '' TERM; sh -c 'trap \"\" TERM; echo $$; exec sleep 300' & wait; exec sleep 300")
        grandchild = int(running.output.next())
        self.code(0, "break", "k")
        self.assertEqual(running.process.wait(LIMIT), 76)
        self.assert_gone(grandchild)
        self.assertEqual([e["signal"] for e in running.events() if e["event"] == "exited"], [9])

    def test_a_member_that_is_no_orphan_of_ours_is_killed_as_well(self):
        # its parent leaves the group and lives, so nobody tells us of the member's end
        running = self.start("-k", "200ms", "k", "--", sys.executable, "-c", STRANGER)
        parent, member = (int(word) for word in running.output.next().split())
        self.addCleanup(os.kill, parent, signal.SIGKILL)
        self.code(0, "break", "k")
        self.assertEqual(running.process.wait(LIMIT), 76)
        self.assert_gone(member)
        os.kill(parent, 0)

    def test_a_member_that_is_no_orphan_of_ours_may_end(self):
        running = self.start("-k", "%dms" % (LIMIT * 2000), "k", "--", sys.executable, "-c",
                             STRANGER.replace("SIGTERM, signal.SIG_IGN", "SIGTERM, signal.SIG_DFL"))
        parent, _ = (int(word) for word in running.output.next().split())
        self.addCleanup(os.kill, parent, signal.SIGKILL)
        self.code(0, "break", "k")
        self.assertEqual(running.process.wait(LIMIT), 76)  # does not wait until --kill-after

    def test_what_outlives_its_leader_is_killed_as_well(self):
        running = self.start("-k", "200ms", "k", "--", "sh", "-c",
                             "sh -c 'trap \"\" TERM; echo $$; exec sleep 300' & wait")
        grandchild = int(running.output.next())
        self.code(0, "break", "k")
        self.assertEqual(running.process.wait(LIMIT), 76)
        self.assert_gone(grandchild)

    def test_a_stopped_command_ends_too(self):
        running = self.start("k", "--", "sh", "-c", "echo $$; exec cat")
        os.kill(int(running.output.next()), signal.SIGSTOP)
        self.code(0, "break", "k")
        self.assertEqual(running.process.wait(LIMIT), 76)

    def test_ignore(self):
        running = self.hold("k", "--on-lost", "ignore")
        self.code(0, "break", "k")
        running.event("lost")
        self.assertEqual(running.finish(), 76)
        self.assertEqual([e["code"] for e in running.events() if e["event"] == "exited"], [0])

    def test_the_next_holder_is_left_alone(self):
        first = self.hold("k", "--on-lost", "ignore")
        self.code(0, "break", "k")
        second = self.hold("k")
        self.assertEqual(first.finish(), 76)
        self.code(75, "run", "-n", "k", "true")
        self.assertEqual(second.finish(), 0)


if __name__ == "__main__":
    unittest.main()
