"""Job control: locker run on a terminal of its own (a pty), under a session leader that plays the shell.

The test forks a process that makes a session with the pty as its controlling terminal, starts locker in a
process group in the foreground, as an interactive shell does, and waits for it with WUNTRACED.
"""
import fcntl
import os
import pty
import signal
import termios
import unittest

from clitest import LOCKER, Case, Lines


class Shell:
    """The session leader. It answers on a pipe with a line for each change of the job: "stopped N", "exited N",
    and obeys "fg" and "bg"."""

    def __init__(self, argv, env):
        self.master, slave = pty.openpty()
        orders_read, self.orders = os.pipe()
        news_read, news_write = os.pipe()
        self.news = Lines(news_read)
        self.terminal = Lines(self.master)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                # What the test holds open (the other end of a command's input, say) must not stay open here.
                for fd in map(int, os.listdir("/proc/self/fd")):
                    if fd > 2 and fd not in (slave, orders_read, news_write):
                        try:
                            os.close(fd)
                        except OSError:
                            pass
                self.play(argv, env, slave, orders_read, news_write)
            finally:
                os._exit(1)
        for fd in (slave, orders_read, news_write):
            os.close(fd)

    @staticmethod
    def play(argv, env, slave, orders, news):
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for fd in (0, 1, 2):
            os.dup2(slave, fd)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        ready, go = os.pipe()
        job = os.fork()
        if job == 0:
            os.setpgid(0, 0)
            os.close(go)
            os.read(ready, 1)
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            os.execve(argv[0], argv, env)
        os.setpgid(job, job)
        os.tcsetpgrp(0, job)
        os.close(go)
        while True:
            _, status = os.waitpid(job, os.WUNTRACED)
            os.tcsetpgrp(0, os.getpgrp())
            if not os.WIFSTOPPED(status):
                code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
                os.write(news, b"exited %d\n" % code)
                os._exit(0)
            os.write(news, b"stopped %d\n" % os.WSTOPSIG(status))
            if os.read(orders, 1) == b"f":
                os.tcsetpgrp(0, job)
            os.kill(-job, signal.SIGCONT)

    def type(self, data):
        os.write(self.master, data)

    def order(self, letter):
        os.write(self.orders, letter)

    def line(self):
        return self.terminal.next().rstrip("\r")

    def lines_until(self, text):
        while True:
            line = self.line()
            if text in line:
                return line

    def stop(self):
        try:
            group = os.tcgetpgrp(self.master)
            if group > 1:  # 0 when the session has ended, which would be our own group
                os.killpg(group, signal.SIGKILL)
        except OSError:
            pass
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(self.pid, 0)
        for fd in (self.master, self.orders, self.news.fd):
            os.close(fd)


class Terminal(Case):
    def shell(self, *arguments, argv=None):
        shell = Shell(argv or [LOCKER, "run"] + list(arguments), self.env)
        self.addCleanup(shell.stop)
        return shell

    def test_the_command_has_the_terminal(self):
        shell = self.shell("k", "--", "sh", "-c", "echo ready; read line; echo \"got $line\"")
        shell.lines_until("ready")
        shell.type(b"hello\n")
        shell.lines_until("got hello")
        self.assertEqual(shell.news.next(), "exited 0")

    def test_control_c(self):
        for options in ([], ["--foreground"]):
            shell = self.shell(*options, "k", "--", "sh", "-c", "echo ready; exec cat")
            shell.lines_until("ready")
            shell.type(b"\x03")
            self.assertEqual(shell.news.next(), "exited -2")
            self.code(0, "run", "-n", "k", "true")

    def test_control_backslash(self):
        for options in ([], ["--foreground"]):
            shell = self.shell(*options, "k", "--", "sh", "-c", "echo ready; exec sleep 300")
            shell.lines_until("ready")
            shell.type(b"\x1c")
            self.assertEqual(shell.news.next(), "exited -3")

    def test_the_terminal_comes_back_from_a_killed_shells_job(self):
        script = '"$0" run -k 300ms k bash --norc -i; echo back; read line; echo "got $line"'
        shell = self.shell(argv=["/bin/sh", "-c", script, LOCKER])
        shell.type(b"sh -c 'trap \"\" TERM; echo jo''b; sleep 300; sleep 300'\n")
        shell.lines_until("job")
        self.code(0, "break", "k")
        shell.lines_until("back")
        shell.type(b"hello\n")
        shell.lines_until("got hello")

    def test_foreground_gets_control_c_once(self):
        shell = self.shell("--foreground", "k", "--", "sh", "-c",
                           "trap 'echo int' INT; echo ready; read a; read a; echo end")
        shell.lines_until("ready")
        shell.type(b"\x03")
        shell.lines_until("int")
        shell.type(b"a\nb\n")
        rest = []
        while "end" not in rest:
            rest.append(shell.line())
        self.assertNotIn("int", rest)

    def test_control_z_and_fg(self):
        for options in ([], ["--foreground"]):
            shell = self.shell(*options, "k", "--", "sh", "-c", "echo ready; read line; echo \"got $line\"")
            shell.lines_until("ready")
            shell.type(b"\x1a")
            self.assertEqual(shell.news.next(), "stopped %d" % signal.SIGTSTP)
            self.code(75, "run", "-n", "k", "true")
            shell.order(b"f")
            shell.type(b"hello\n")
            shell.lines_until("got hello")
            self.assertEqual(shell.news.next(), "exited 0")

    def test_bg_and_reading_then_fg(self):
        shell = self.shell("k", "--", "sh", "-c", "echo ready; read line; echo \"got $line\"")
        shell.lines_until("ready")
        shell.type(b"\x1a")
        self.assertEqual(shell.news.next(), "stopped %d" % signal.SIGTSTP)
        shell.order(b"b")
        # In the background it reads, and is stopped for that.
        self.assertEqual(shell.news.next().split()[0], "stopped")
        shell.order(b"f")
        shell.type(b"hello\n")
        shell.lines_until("got hello")
        self.assertEqual(shell.news.next(), "exited 0")

    def test_control_z_while_waiting(self):
        holder = self.hold("k")
        shell = self.shell("-v", "k", "--", "echo", "ran")
        shell.lines_until("waiting for 'k'")
        shell.type(b"\x1a")
        self.assertEqual(shell.news.next(), "stopped %d" % signal.SIGTSTP)
        shell.order(b"f")
        holder.finish()
        shell.lines_until("ran")
        self.assertEqual(shell.news.next(), "exited 0")

    def test_a_waiter_names_the_holder(self):
        self.hold("k", "--owner", "the holder")
        shell = self.shell("k", "--", "echo", "ran")
        shell.lines_until("waiting for 'k', held by the holder since ")
        shell.type(b"\x03")
        self.assertEqual(shell.news.next(), "exited -2")

    def test_control_c_while_waiting(self):
        self.hold("k")
        shell = self.shell("-v", "k", "--", "echo", "ran")
        shell.lines_until("waiting for 'k'")
        shell.type(b"\x03")
        self.assertEqual(shell.news.next(), "exited -2")

    def test_the_terminal_is_lent_when_the_command_asks_for_it(self):
        """In a pipeline it is not given at the start: the other side may need it."""
        shell = self.shell(argv=["/bin/sh", "-c", '"$0" run k sh -c "echo ready; read line; echo got \\$line" | cat',
                                 LOCKER])
        shell.lines_until("ready")
        shell.type(b"hello\n")
        shell.lines_until("got hello")
        self.assertEqual(shell.news.next(), "exited 0")

    def test_a_lost_lock_is_seen_before_a_stopped_command_goes_on(self):
        shell = self.shell("k", "--", "sh", "-c", "echo ready; read line; echo \"got $line\"")
        shell.lines_until("ready")
        shell.type(b"\x1a")
        self.assertEqual(shell.news.next(), "stopped %d" % signal.SIGTSTP)
        self.code(0, "break", "k")
        shell.order(b"f")
        self.assertEqual(shell.news.next(), "exited 76")


if __name__ == "__main__":
    unittest.main()
