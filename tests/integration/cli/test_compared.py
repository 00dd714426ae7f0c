"""docs/data/run-compared.md: flock(1), timeout(1) and locker run through each case of its table, in a terminal. What consul lock and
etcdctl lock do was read in their sources and is not run."""
import os
import pty
import select
import signal
import subprocess
import time
import unittest

from clitest import LIMIT, LOCKER, Case
from test_terminal import Shell

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs", "data", "run-compared.md")
TOOLS = ("flock", "timeout", "locker run")


def table():
    """{case: {tool: cell}}."""
    with open(TABLE) as file:
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in file if line.startswith("|")]
    return {row[0]: dict(zip(rows[0][1:], row[1:])) for row in rows[2:]}


class Compared(Case):
    def setUp(self):
        super().setUp()
        self.file = os.path.join(self.directory, "flock")

    def prefix(self, tool, *options):
        return {"flock": ["flock", *options, self.file], "timeout": ["timeout", *options, "300"],
                "locker run": [LOCKER, "run", *options, "k"]}[tool]

    def is_held(self, tool):
        return subprocess.run(self.prefix(tool, "-n") + ["true"], env=self.env, stderr=subprocess.DEVNULL).returncode != 0

    def run_tool(self, tool, *command, options=()):
        return subprocess.run(self.prefix(tool, *options) + list(command), env=self.env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=LIMIT, text=True)

    @staticmethod
    def seen(code):
        """The exit code that a shell sees."""
        return str(code if code >= 0 else 128 - code)

    def hold(self, tool):
        holder = subprocess.Popen(self.prefix(tool) + ["sh", "-c", "echo held; read line"], env=self.env, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)
        self.assertEqual(holder.stdout.readline(), b"held\n")

        def release():
            holder.stdin.close()
            holder.wait(LIMIT)
            holder.stdout.close()
        self.addCleanup(release)

    def a_script(self, tool, key, ready, command):
        """A script that runs it three times, in the foreground of a terminal. bash ignores QUIT, so that script is dash's."""
        shell = "/bin/dash" if key == b"\x1c" else "/bin/bash"
        script = Shell([shell, "-c", 'for i in 1 2 3; do echo round $i; "$@"; done', "script", *self.prefix(tool), *command], self.env)
        self.addCleanup(script.stop)
        script.lines_until("round 1")
        ready(script)
        self.sleeps(script.pid)
        script.type(key)
        end, text = time.monotonic() + 3.0, script.terminal.rest
        while time.monotonic() < end:
            for fd in select.select([script.master, script.news.fd], [], [], 0.1)[0]:
                if fd == script.news.fd:
                    return "script stops"
                try:
                    text += os.read(fd, 4096)
                except OSError:  # nothing has the terminal open any more
                    return "script stops"
            if b"round 2" in text:
                return "script goes on"
        return "no effect"

    def waits(self, tool, shell):
        """Until the tool sleeps as it does when it waits for the lock."""
        name = {"flock": b"flock", "locker run": b"locker"}[tool]
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open("/proc/%s/stat" % pid, "rb") as file:
                        text = file.read()
                    after = text[text.rindex(b")") + 2:].split()
                    if int(after[3]) == shell.pid and name in text and after[0] == b"S":
                        time.sleep(0.3)  # it may have slept for another reason; Ctrl-C stops it then as well
                        return
                except OSError:
                    pass
        self.fail("it does not wait")

    def alive(self, pid):
        try:
            with open("/proc/%d/stat" % pid) as file:
                return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
        except OSError:
            return False

    def sleeps(self, pid):
        """Until a shell or timeout(1) waits for what it has started: signalled before that, it ends alone. It may sleep for a
        moment before, too."""
        end, times = time.monotonic() + LIMIT, 0
        while time.monotonic() < end:
            with open("/proc/%d/stat" % pid) as file:
                times = times + 1 if file.read().rsplit(")", 1)[1].split()[0] == "S" else 0
            if times == 10:
                return
            time.sleep(0.01)
        self.fail("it does not wait")

    def process_of(self, tool, *options):
        process = subprocess.Popen(self.prefix(tool, *options) + ["sh", "-c", "echo $$"], env=self.env, stdout=subprocess.PIPE)
        said = int(process.communicate(timeout=LIMIT)[0])
        return "the tool's" if said == process.pid else "its own"

    def after_signal(self, tool, number, away="", options=()):
        process = subprocess.Popen(self.prefix(tool, *options) + ["sh", "-c", "%s sh -c 'echo $$; exec sleep 300' & wait" % away], env=self.env,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(process.stdout.close)
        pid = int(process.stdout.readline())
        if tool == "timeout":
            self.sleeps(process.pid)
        process.send_signal(number)
        process.wait(LIMIT)
        end = time.monotonic() + 1.0  # PDEATHSIG comes with the end
        while self.alive(pid) and time.monotonic() < end:
            time.sleep(0.02)
        if not self.alive(pid):
            return "ended"
        held = tool != "timeout" and self.is_held(tool)
        os.kill(pid, signal.SIGKILL)
        return "goes on, locked" if held else "goes on"

    def after_end(self, tool, *options):
        done = self.run_tool(tool, "sh", "-c", "setsid sh -c 'exec sleep 300' >/dev/null 2>&1 & echo $!", options=options)
        pid = int(done.stdout)
        held = self.is_held(tool)
        for child in (pid,):
            os.kill(child, signal.SIGKILL)
        return "keeps the lock" if held else "lock is free"

    def waited_for(self, tool):
        process = subprocess.Popen(self.prefix(tool, "--wait-descendants") + ["sh", "-c", "sleep 300 & echo $!"], env=self.env,
                                   stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        pid = int(process.stdout.readline())
        held = self.is_held(tool)
        os.kill(pid, signal.SIGKILL)
        process.wait(LIMIT)
        return "keeps the lock" if held else "lock is free"

    def orphaned(self, tool):
        """In a background job, from the moment in which its shell has ended: before, the terminal stops it, and it depends on the moment
        whether the kernel continues it."""
        pid, master = pty.fork()
        if pid == 0:
            words = " ".join("'%s'" % word for word in self.prefix(tool) + ["sh", "-c", "echo runs; while kill -0 $SHELL_OF_IT; do sleep 0.02; done 2>/dev/null; read line </dev/tty"])
            os.execve("/bin/bash", ["bash", "-c", "set -m; (export SHELL_OF_IT=$BASHPID; %s & ); sleep 300" % words], self.env)
        end, text = time.monotonic() + LIMIT, b""
        try:
            while b"runs" not in text and select.select([master], [], [], LIMIT)[0]:
                text += os.read(master, 4096)
            while self.is_held(tool):
                if time.monotonic() > end:
                    return "hangs"
                time.sleep(0.05)
            return "ends"
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(master)

    def busy(self, tool, *options):
        self.hold(tool)
        done = self.run_tool(tool, "true", options=options)
        return "%s, %s" % (self.seen(done.returncode), "says why" if done.stderr else "silent")

    def interrupted(self, tool, key):
        return self.a_script(tool, key, lambda shell: shell.lines_until("runs"), ["sh", "-c", "echo runs; exec sleep 300"])

    def interrupted_wait(self, tool):
        self.hold(tool)
        return self.a_script(tool, b"\x03", lambda shell: self.waits(tool, shell), ["true"])

    PROBES = {
        "the command exits with 7": lambda s, tool: s.seen(s.run_tool(tool, "sh", "-c", "exit 7").returncode),
        "the command dies of TERM": lambda s, tool: s.seen(s.run_tool(tool, "sh", "-c", "kill -TERM $$").returncode),
        "the command is not found": lambda s, tool: s.seen(s.run_tool(tool, "no-such-program").returncode),
        "Ctrl-C, in a script's loop": lambda s, tool: s.interrupted(tool, b"\x03"),
        "Ctrl-\\\\, in a script's loop": lambda s, tool: s.interrupted(tool, b"\x1c"),
        "Ctrl-C while it waits, in a script's loop": interrupted_wait,
        "busy, -n": lambda s, tool: s.busy(tool, "-n"),
        "not free in time, -w": lambda s, tool: s.busy(tool, "-w", "0.1"),
        "a daemon after a normal end": after_end,
        "the same, --wait-descendants": waited_for,
        "with -F, the command's process": lambda s, tool: s.process_of(tool, "-F"),
        "with -F, a daemon after a normal end": lambda s, tool: s.after_end(tool, "-F"),
        "with -F, TERM, and the command's children": lambda s, tool: s.after_signal(tool, signal.SIGTERM, options=["-F"]),
        "TERM to the tool": lambda s, tool: s.after_signal(tool, signal.SIGTERM),
        "TERM, and a process in another group": lambda s, tool: s.after_signal(tool, signal.SIGTERM, "setsid"),
        "KILL of the tool": lambda s, tool: s.killed(tool),
        "reads the terminal, no shell is left": orphaned,
    }

    def killed(self, tool):
        process = subprocess.Popen(self.prefix(tool) + ["sh", "-c", "echo $$; exec sleep 300"], env=self.env, stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        pid = int(process.stdout.readline())
        process.kill()
        process.wait(LIMIT)
        end = time.monotonic() + 1.0
        while self.alive(pid) and time.monotonic() < end:
            time.sleep(0.02)
        if not self.alive(pid):
            return "ended"
        held = tool != "timeout" and self.is_held(tool)
        os.kill(pid, signal.SIGKILL)
        return "goes on, locked" if held else "goes on"

    NOT_HERE = {"the lock is lost": "integration.cli.lost"}

    def test_each_cell(self):
        rows = table()
        self.assertEqual(sorted(rows), sorted([*self.PROBES, *self.NOT_HERE]))
        for case, probe in self.PROBES.items():
            for tool in TOOLS:
                if rows[case][tool] == "–":
                    continue
                with self.subTest(case=case, tool=tool):
                    self.assertEqual(probe(self, tool), rows[case][tool])
                self.doCleanups()
                self.setUp()


if __name__ == "__main__":
    unittest.main()
