"""Completion in a real bash and a real zsh, on a terminal, with a configuration and files whose names are commands."""
import os
import pty
import select
import shutil
import signal
import tempfile
import time
import unittest

from clitest import LIMIT
from told import report_skip

COMPLETION = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools", "completion")
EVIL = ("$(touch pwned)", "`touch pwned`", "a; touch pwned", "a$(touch${IFS}pwned)b", "<(touch pwned)", "two words", "'", '"',
        "*", "~", "!!", "a:b", "-x", "\\$(touch pwned)", "a|touch pwned", "#x", "x\\")
LEFT_OUT = ("\x1b[31mred", "\udc9b31m", "\u202egnirts", "\u009b31m", "bell\x07")
SHELLS = {
    "bash": (["--norc", "--noprofile", "-i"], "set +o history; bind 'set enable-bracketed-paste off'; source %s/locker.bash"),
    "zsh": (["-f", "-i"], "unset zle_bracketed_paste; setopt no_beep; fpath=(%s $fpath); autoload -Uz compinit; compinit -u -D"),
}
DONE = "the line was executed"


class Shell:
    """A shell on a terminal of its own, in which locker is a function that writes down its arguments."""

    def __init__(self, name, directory, completion):
        options, setup = SHELLS[name]
        self.directory, self.text = directory, b""
        environment = {"PATH": os.environ["PATH"], "HOME": directory, "TERM": "xterm", "LC_ALL": "C.UTF-8", "PS1": "$ ",
                       "LOCKER_CONFIG": os.path.join(directory, "locker.conf")}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            os.execvpe(name, [name] + options, environment)
        self.execute(setup % completion)
        self.execute("locker() { printf '%s\\0' \"$@\" >arguments; }")

    def wait_for(self, wanted):
        end = time.monotonic() + LIMIT
        while wanted not in self.text:
            if not select.select([self.fd], [], [], max(0.0, end - time.monotonic()))[0]:
                raise AssertionError("no %r within %g s, but %r" % (wanted, LIMIT, self.text))
            self.text += os.read(self.fd, 65536)

    def execute(self, line):
        """Type a line, and another that says when it is done, in two words so that its echo is another text."""
        self.text = b""
        os.write(self.fd, line.encode() + b"\n")
        os.write(self.fd, b"echo '%s''%s'\n" % (DONE[:5].encode(), DONE[5:].encode()))
        self.wait_for(DONE.encode())

    def arguments(self):
        with open(os.path.join(self.directory, "arguments"), "rb") as file:
            return file.read().decode("utf-8", "surrogateescape").split("\0")[:-1]

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


class Completion(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="locker-completion-")
        self.addCleanup(shutil.rmtree, self.directory, True)

    def write(self, names, path="locker.conf"):
        with open(os.path.join(self.directory, path), "wb") as file:
            for name in names:
                file.write(b"[%s]\nuri = memory:\n" % name.encode("utf-8", "surrogateescape"))

    def each_shell(self):
        for name in SHELLS:
            if not shutil.which(name):
                report_skip(self.id(), "there is no %s" % name)
                continue
            with self.subTest(name):
                shell = Shell(name, self.directory, os.path.abspath(COMPLETION))
                try:
                    yield shell
                finally:
                    shell.end()

    def nothing_was_executed(self):
        self.assertNotIn("pwned", os.listdir(self.directory))

    def test_one_profile(self):
        """Its name goes into the line as one word, whatever it is, and is executed as that."""
        for shell in self.each_shell():
            for name in EVIL + ("plain",):
                with self.subTest(name):
                    self.write([name])
                    shell.execute("locker ping --profile \t")
                    self.assertEqual(shell.arguments(), ["ping", "--profile", name])
                    self.nothing_was_executed()

    def test_what_a_terminal_would_act_on_is_left_out(self):
        for shell in self.each_shell():
            for name in LEFT_OUT:
                with self.subTest(name):
                    self.write([name, "plain"])
                    shell.execute("locker ping --profile \t")
                    self.assertEqual(shell.arguments(), ["ping", "--profile", "plain"])

    def test_many_profiles(self):
        for shell in self.each_shell():
            self.write(EVIL + LEFT_OUT)
            shell.execute("locker ping --profile \t\t\t")
            self.nothing_was_executed()
            for wrong in (b"\x1b[31mred", b"\xc2\x9b31m", "\u202e".encode()):
                self.assertNotIn(wrong, shell.text)

    def test_files(self):
        for shell in self.each_shell():
            for name in ("$(touch pwned)", "`touch pwned`", "a; touch pwned"):
                with self.subTest(name):
                    os.mkdir(os.path.join(self.directory, "folder"))
                    self.write(["plain"], os.path.join("folder", name))
                    shell.execute("locker ping -f folder/\t")
                    self.assertEqual(shell.arguments(), ["ping", "-f", "folder/" + name])
                    shutil.rmtree(os.path.join(self.directory, "folder"))
                    self.nothing_was_executed()

    def test_the_file_that_is_named(self):
        for shell in self.each_shell():
            self.write(["of-another"], "other.conf")
            self.write(["of-the-environment"])
            shell.execute("locker ping -f other.conf --profile \t")
            self.assertEqual(shell.arguments(), ["ping", "-f", "other.conf", "--profile", "of-another"])
            shell.execute("locker ping -f 'x(e:touch pwned:)' --profile \t")
            shell.execute("locker ping -f '$(touch pwned)' --profile \t")
            self.nothing_was_executed()


if __name__ == "__main__":
    unittest.main()
