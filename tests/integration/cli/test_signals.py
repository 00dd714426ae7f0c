"""Signals before and during the wait, and while the command runs; no process is left behind."""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

from clitest import LIMIT, LOCKER, Case, Lines
from told import report_skip

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


def ended_by(number):
    """INT and QUIT end locker itself, so that what runs it stops too; a shell shows both as 128 plus the number."""
    return -number if number in (signal.SIGINT, signal.SIGQUIT) else 128 + number


# Process 1 of a namespace: `locker run` and a stranger get numbers that mean a process and its child in /proc.
NAMESPACE = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from clitest import fork_as
def start(number, *command, **more):
    if fork_as(number) == 0:
        if more:
            os.dup2(more["output"], 1)
        os.execvp(command[0], command)
    return number
ready, output = os.pipe()
locker = start(int(sys.argv[3]), sys.argv[2], "run", "k", "--", "sh", "-c", "echo ready; exec sleep 300", output=output)
stranger = start(int(sys.argv[4]), "sleep", "300")
print(os.read(ready, 20).decode(), flush=True)
os.kill(locker, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(locker, 0)[1]))
print("lives" if os.waitpid(stranger, os.WNOHANG) == (0, 0) else "was ended")
"""


class Waiting(Case):
    def test_a_signal_ends_the_wait(self):
        holder = self.hold("k")
        for number in ENDINGS:
            for wait in ([], ["-w", "1h"]):
                waiter = self.start(*wait, "k", "--", "touch", os.path.join(self.directory, "ran"))
                waiter.event("waiting")
                waiter.process.send_signal(number)
                self.assertEqual(waiter.finish(), ended_by(number))
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
            self.assertEqual(process.wait(LIMIT), ended_by(number))

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

    def test_locker_ends_by_the_same_signal_as_the_command(self):
        for number in ENDINGS:
            running = self.hold("k")
            running.process.send_signal(number)
            self.assertEqual(running.process.wait(LIMIT), ended_by(number))
            self.assertEqual([e["event"] for e in running.events()], ["exited", "released"])

    def test_the_whole_group_gets_it(self):
        running = self.start("k", "--", "sh", "-c", "sleep 300 & echo $!; wait")
        grandchild = int(running.output.next())
        running.process.send_signal(signal.SIGTERM)
        self.assertEqual(running.process.wait(LIMIT), 143)
        self.assert_gone(grandchild)

    def test_foreground_signals_the_command_alone_and_then_its_remaining_processes(self):
        running = self.start("--foreground", "k", "--", "sh", "-c",
                             "trap 'echo term; exit 3' TERM; sh -c 'trap \"echo child; exit\" TERM; sleep 300 & wait' & "
                             "ps -o pgid= -p $$ | tr -d ' '; echo $!; wait; wait")
        group, grandchild = int(running.output.next()), int(running.output.next())
        self.assertEqual(group, os.getpgid(running.pid))
        running.process.send_signal(signal.SIGTERM)
        self.assertEqual(running.process.wait(LIMIT), 3)
        self.assert_gone(grandchild)

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


# Counts TERM; a second one makes it end at once.
COUNTER = """
import signal, sys, time
count = 0
def told(number, frame):
    global count
    count += 1
    print("TERM", count, flush=True)
signal.signal(signal.SIGTERM, told)
print("ready", flush=True)
while not count:
    signal.pause()
end = time.monotonic() + 0.5
while time.monotonic() < end:
    time.sleep(0.05)
sys.exit(count)
"""


class Tree(Case):
    """What the command started, beyond its process group."""

    def pid(self, running):
        return int(running.output.next())

    def test_term_reaches_processes_that_left_the_group(self):
        for away in ("timeout 300 sh -c 'echo $$; exec sleep 300'", "setsid sh -c 'echo $$; exec sleep 300' & wait",
                     "\"$0\" run -q inner sh -c 'echo $$; exec sleep 300'"):
            running = self.start("k", "--", "sh", "-c", away, LOCKER)
            process = self.pid(running)
            running.process.send_signal(signal.SIGTERM)
            self.code(0, "run", "-w", "%ds" % LIMIT, "k", "sh", "-c", "! grep State:.[^ZX] /proc/%d/status" % process)
            self.assertIn(running.process.wait(LIMIT), (143, 124))

    def test_processes_that_ignore_term_are_killed_before_the_release(self):
        running = self.start("-k", "200ms", "k", "--", "sh", "-c",
                             "setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & wait")
        process = self.pid(running)
        running.process.send_signal(signal.SIGTERM)
        self.code(0, "run", "-w", "%ds" % LIMIT, "k", "sh", "-c", "! grep State:.[^ZX] /proc/%d/status" % process)
        self.assertEqual(running.process.wait(LIMIT), 143)

    def test_a_broken_lock_ends_processes_that_left_the_group(self):
        for options in ([], ["--foreground"]):
            running = self.start("-k", "200ms", *options, "k", "--", "sh", "-c",
                                 "setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & wait")
            process = self.pid(running)
            self.code(0, "break", "k")
            self.assertEqual(running.process.wait(LIMIT), 76)
            self.assert_gone(process)

    def test_a_successor_that_no_walk_sees(self):
        """Each process starts the next one and ends."""
        hop = "import os,time\nprint(os.getpid(), flush=True)\nwhile True:\n time.sleep(0.001)\n if os.fork(): os._exit(0)"
        running = self.start("-k", "200ms", "k", "--", "sh", "-c", "setsid \"$0\" -c \"$1\" & wait; exec sleep 300",
                             sys.executable, hop)
        group = self.pid(running)
        running.process.send_signal(signal.SIGTERM)
        self.assertEqual(running.process.wait(LIMIT), 143)
        self.assertRaises(ProcessLookupError, os.killpg, group, signal.SIGKILL)

    def test_wait_descendants(self):
        running = self.start("--wait-descendants", "k", "--", "sh", "-c", "setsid sh -c 'echo $$; exec sleep 300' & exit 3")
        process = self.pid(running)
        self.code(75, "run", "-w", "300ms", "k", "true")
        os.kill(process, signal.SIGKILL)
        self.assertEqual(running.process.wait(LIMIT), 3)
        running = self.start("--wait-descendants", "k", "--", "sh", "-c", "setsid sh -c 'echo $$; exec sleep 300' & exit 3")
        process = self.pid(running)
        self.code(75, "run", "-n", "k", "true")
        running.process.send_signal(signal.SIGTERM)
        self.assertEqual(running.process.wait(LIMIT), 3)
        self.assert_gone(process)

    def test_a_child_from_before_the_exec_is_left_alone(self):
        """A child that the shell left to us when it became locker."""
        script = "sleep 300 & echo $!; exec \"$0\" run k -- sh -c 'echo ready; exec sleep 300'"
        shell = subprocess.Popen(["sh", "-c", script, LOCKER], env=self.env, stdout=subprocess.PIPE)
        self.addCleanup(shell.stdout.close)
        other = int(shell.stdout.readline())
        self.addCleanup(os.kill, other, signal.SIGKILL)
        self.assertEqual(shell.stdout.readline(), b"ready\n")
        shell.send_signal(signal.SIGTERM)
        self.assertEqual(shell.wait(LIMIT), 143)
        os.kill(other, 0)

    def test_a_process_that_may_not_be_signalled_is_reported_and_keeps_the_lock(self):
        if os.geteuid() != 0:
            report_skip(self.id(), "only root can make a program of another user")
            return
        program = self.everybodys()
        user = 59000 + os.getpid() % 1000
        os.mkdir(os.path.join(self.directory, "locks"))
        os.chmod(self.directory, 0o755)
        os.chown(os.path.join(self.directory, "locks"), user, -1)
        # As sudo does: the process has all of root's ids, the parent is the user's.
        tree = shutil.copy(os.environ["TREE_BIN"], os.path.dirname(program))
        os.chmod(tree, 0o4755)
        self.env["TREE_SETUID"] = tree
        for end, code in ((lambda running: running.process.send_signal(signal.SIGTERM), 143),
                          (lambda running: self.code(0, "break", "k", user=user, program=program), 76)):
            running = self.start("-k", "100ms", "k", "--", tree, "name", "f(u(p))", program=program, user=user)
            process = self.pid(running)
            end(running)
            refused = running.event("refused")
            self.assertEqual(refused["pid"], process)
            if code == 143:
                self.code(75, "run", "-w", "500ms", "k", "true", user=user, program=program)
                os.kill(refused["pid"], signal.SIGKILL)
                self.code(0, "run", "-w", "20s", "k", "true", user=user, program=program)
            self.assertEqual(running.process.wait(LIMIT), code)
            if code == 76:
                os.kill(refused["pid"], signal.SIGKILL)
            text = running.error_text()
            self.assertIn("warning: ", text)
            self.assertIn("process %d (" % refused["pid"], text)

    def test_numbers_of_another_namespace_are_not_ours(self):
        """/proc shows processes that have other numbers for the kernel's calls, as after `unshare -p` without a mount."""
        if os.geteuid() != 0:
            report_skip(self.id(), "only root can make a namespace of process numbers")
            return
        child = subprocess.Popen(["sleep", "300"])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        script = [sys.executable, "-B", "-c", NAMESPACE, os.path.dirname(os.path.abspath(__file__)), LOCKER]
        done = subprocess.run(["unshare", "-pf"] + script + [str(os.getpid()), str(child.pid)], stdout=subprocess.PIPE,
                              env=dict(self.env, LOCKER_BIN=LOCKER), timeout=LIMIT)
        self.assertEqual(done.stdout.decode().split(), ["ready", "143", "lives"])

    def test_a_supervisor_that_signals_both_counts_once(self):
        """The command is signalled while locker holds it stopped. One that had its own before that gets both (locker-run(1))."""
        for _ in range(20):
            running = self.start("k", "--", sys.executable, "-c", "import os; print(os.getpid(), flush=True)" + COUNTER)
            command = self.pid(running)
            self.assertEqual(running.output.next(), "ready")
            os.kill(running.pid, signal.SIGTERM)
            while self.state(command) not in "TZ":
                pass
            with contextlib.suppress(ProcessLookupError):
                os.kill(command, signal.SIGTERM)
            stopped = self.state(command) == "T"  # locker goes on 50 ms later, which on a busy machine is too soon
            code = running.process.wait(LIMIT)
            if stopped:
                self.assertEqual(code, 1)
                return
        self.fail("it was never signalled while it was stopped")

    @staticmethod
    def state(pid):
        """The letter of the state of a process; Z: it has ended."""
        try:
            with open("/proc/%d/stat" % pid) as file:
                return file.read().rsplit(")", 1)[1].split()[0]
        except OSError:
            return "Z"


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

    def test_a_process_that_left_the_group_is_ended_with_its_children(self):
        running = self.start("-k", "200ms", "k", "--", sys.executable, "-c", STRANGER)
        parent, member = (int(word) for word in running.output.next().split())
        self.code(0, "break", "k")
        self.assertEqual(running.process.wait(LIMIT), 76)
        self.assert_gone(member)
        self.assert_gone(parent)

    def test_processes_that_outlive_the_group_leader_are_killed(self):
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


class PidNamespaces(Case):
    def unshare(self, *options):
        """The words that run a program in a PID namespace of its own; None where this user may not make one."""
        words = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--pid", *options]
        if subprocess.run([*words, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return words
        report_skip(self.id(), "this user may make no PID namespace")
        return None

    def test_a_process_that_has_left_its_pid_namespace(self):
        """The kernel lets it start no thread."""
        words = self.unshare()
        if words:
            done = subprocess.run([*words, LOCKER, "run", "k", "true"], env=self.env, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
            self.assertEqual(done.returncode, 71, done.stderr)
            self.assertIn("unshare --pid --fork", done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_process_1_reaps_orphans_while_it_waits(self):
        words = self.unshare("--fork", "--kill-child")
        if not words:
            return
        self.hold("k")
        # Its number in our namespace, whose /proc it sees. dash leaves a background job no standard input.
        orphan = "sh -c 'read pid rest </proc/self/stat; echo $pid; read line <&4' 4<&3 &"
        script = "exec 3<&0; %s exec \"$0\" run --status-fd 1 k true </dev/null 3<&-" % orphan
        first = subprocess.Popen([*words, "sh", "-c", script, LOCKER], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for ends in (first.stdout.close, lambda: first.wait(LIMIT), first.kill):
            self.addCleanup(ends)
        lines = Lines(first.stdout.fileno())
        told = sorted(lines.next() for _ in range(2))  # a number comes before a brace
        self.assertIn("waiting", told[1])
        pid = int(told[0])
        self.assertIsNotNone(self.state(pid))
        first.stdin.close()
        self.until(lambda: self.state(pid) is None, "an orphan stays a zombie")

    @staticmethod
    def state(pid):
        """Its letter in /proc; None: there is none."""
        try:
            with open("/proc/%d/stat" % pid) as file:
                return file.read().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return None


if __name__ == "__main__":
    unittest.main()
