"""Each option of the locker command, and wrong input for each: one line that names it, and 64 or 78."""
import os
import subprocess
import unittest

from clitest import LOCKER, Case


class Help(Case):
    def test_each_form_of_help(self):
        for arguments in ([], ["help"], ["--help"], ["-h"]):
            self.assertIn("locker run [OPTIONS] KEY", self.code(0, *arguments).stdout)
        for name in ("run", "show", "break", "ping", "drivers"):
            text = self.code(0, "help", name).stdout
            self.assertIn("Usage: locker " + name, text)
            self.assertEqual(text, self.code(0, name, "--help").stdout)
            self.assertEqual(text, self.code(0, name, "-h").stdout)
        for option in ("--nonblock", "--wait", "--conflict-exit-code", "--ttl", "--kill-after", "--on-lost",
                       "--lost-exit-code", "--owner", "--foreground", "--status-fd", "--uri", "--config",
                       "--profile", "--quiet", "--verbose", "--version", "--command"):
            self.assertIn(option, self.code(0, "help", "run").stdout)

    def test_version(self):
        for arguments in (["--version"], ["-V"], ["run", "--version"], ["show", "-V"], ["drivers", "-V"]):
            self.assertRegex(self.code(0, *arguments).stdout, r"^locker \d+\.\d+\.\d+\n$")

    def test_wrong_subcommands(self):
        self.wrong(64, "'frobnicate'", "frobnicate")
        self.wrong(64, "'-u'", "-u", self.uri, "run")
        self.wrong(64, "'frobnicate'", "help", "frobnicate")
        self.wrong(64, "'more'", "help", "run", "more")

    def test_output_that_can_not_be_written(self):
        with open("/dev/full", "w") as full:
            for arguments in (["--help"], ["drivers", "--json"], ["show", "k"], ["ping"], ["--version"]):
                self.assertEqual(self.run_to(full, arguments), 71, arguments)

    def run_to(self, output, arguments):
        return subprocess.run([LOCKER] + arguments, env=self.env, stdout=output, stderr=subprocess.DEVNULL,
                              timeout=30).returncode


class WrongRunOptions(Case):
    def test_numbers(self):
        for option in ("-E", "--conflict-exit-code", "--lost-exit-code"):
            for value in ("256", "-1", "1000", "x", "", "7x", " 7", "+7", "0x10", "99999999999999999999"):
                self.wrong(64, "exit-code", "run", option, value, "k", "true")

    def test_durations(self):
        for option, name in (("-w", "--wait"), ("--wait", "--wait"), ("-t", "--ttl"), ("--ttl", "--ttl"),
                             ("-k", "--kill-after"), ("--kill-after", "--kill-after")):
            for value in ("x", "", "-1", "5y", "1.2.3", "ms", "100000d", "nan", "inf"):
                self.wrong(64, name, "run", option, value, "k", "true")
        self.wrong(64, "--ttl", "run", "-t", "0", "k", "true")

    def test_kill_after_must_leave_room_for_renewal(self):
        self.wrong(64, "at most 6000ms", "run", "-t", "9s", "-k", "6.1s", "k", "true")
        self.wrong(64, "--kill-after", "run", "-k", "9s", "-t", "9s", "k", "true")
        self.code(0, "run", "-t", "9s", "-k", "6s", "k", "true")
        self.code(0, "run", "-t", "2s", "k", "true")

    def test_on_lost(self):
        for value in ("", "kill-it", "SIG", "9", "STOP", "SIGCONT", "tstp"):
            self.wrong(64, "--on-lost", "run", "--on-lost", value, "k", "true")
        for value in ("term", "ignore", "TERM", "SIGTERM", "sigusr1", "KILL", "Int"):
            self.code(0, "run", "--on-lost", value, "k", "true")

    def test_owner(self):
        for value in ("", "x" * 128, "two\nlines", "a\tb"):
            self.wrong(64, "--owner", "run", "--owner", value, "k", "true")
        self.code(0, "run", "--owner", "x" * 127, "k", "true")

    def test_status_fd(self):
        for value in ("x", "-1", "", "77", "99999999999"):
            self.wrong(64, "--status-fd", "run", "--status-fd", value, "k", "true")
        fd = os.open("/dev/null", os.O_RDONLY)
        try:
            self.wrong(64, "--status-fd", "run", "--status-fd", str(fd), "k", "true", pass_fds=[fd])
        finally:
            os.close(fd)

    def test_missing_and_unknown(self):
        self.wrong(64, "KEY", "run")
        self.wrong(64, "COMMAND", "run", "k")
        self.wrong(64, "COMMAND", "run", "k", "--")
        self.wrong(64, "COMMAND", "run", "k", "")
        self.wrong(64, "'--frob'", "run", "--frob", "k", "true")
        self.wrong(64, "'-z'", "run", "-z", "k", "true")
        self.wrong(64, "'-w'", "run", "-w")
        self.wrong(64, "'--wait'", "run", "--wait")
        self.wrong(64, "'--nonblock'", "run", "--nonblock=5", "k", "true")
        self.wrong(64, "--nonblock", "run", "-n", "-w", "5", "k", "true")
        self.wrong(64, "'true'", "run", "-c", "exit 3", "k", "true")

    def test_keys(self):
        self.wrong(64, "key", "run", "", "true")
        self.wrong(64, "key", "run", "x" * 256, "true")
        self.wrong(64, "key", "run", "a\nb", "true")
        self.wrong(64, "key", "run", b"\xff\xfe", "true")
        for key in ("x" * 255, "with space", "slashes/in/it", "..", ".", "%2f", "ключ", "{tag}", "-"):
            self.code(0, "run", "-n", key, "true")
        self.code(0, "run", "-n", "--", "-k", "true")


class WrongOtherOptions(Case):
    def test_arguments(self):
        for name in ("show", "break"):
            self.wrong(64, "KEY", name)
            self.wrong(64, "'b'", name, "a", "b")
            self.wrong(64, "key", name, "x" * 256)
            self.wrong(64, "'--wait'", name, "--wait", "a")
        self.wrong(64, "'a'", "ping", "a")
        self.wrong(64, "'a'", "drivers", "a")
        self.wrong(64, "'b'", "drivers", "file", "b")
        self.wrong(64, "'-x'", "drivers", "-x")
        for value in ("0", "-1", "x", "", "1000001"):
            self.wrong(64, "--count", "ping", "-c", value)

    def test_which_service(self):
        for arguments in (["run", "k", "true"], ["show", "k"], ["break", "k"], ["ping"]):
            name, rest = arguments[0], arguments[1:]
            for option in ("-u", "-f", "--profile", "--uri", "--config"):
                self.wrong(64, "empty", name, option, "", *rest)
            self.wrong(64, "--config", name, "-u", self.uri, "-f", "/x", *rest)
            self.wrong(64, "--profile", name, "-u", self.uri, "--profile", "x", *rest)
            self.wrong(78, "nosuch", name, "-u", "nosuch://host", *rest)
            self.wrong(78, "frob", name, "-u", self.uri + "?frob=1", *rest)
            self.wrong(78, "ttl", name, "-u", self.uri + "?ttl=soon", *rest)
            self.wrong(78, "/nowhere.conf", name, "-f", "/nowhere.conf", *rest)

    def test_no_password_is_printed(self):
        """Wherever a URI with a password goes wrong, or to a wrong place."""
        for uri in ("redis://u:Xq7/Wv9@127.0.0.1:1/0", "redis://u:Xq7?Wv9@127.0.0.1:1", "redis://:Xq7#Wv9@127.0.0.1:1",
                    "redis:/u:Xq7Wv9@127.0.0.1", "redis:u:Xq7Wv9@127.0.0.1", "redis:///u:Xq7Wv9@127.0.0.1:1",
                    "redis//u:Xq7Wv9@h", "u:Xq7Wv9@h:1", "redis://Xq7Wv9@127.0.0.1:1", "redis://:Xq7Wv9:127.0.0.1:1",
                    "zk://u:1/Xq7Wv9@127.0.0.1:1/a", "zookeeper://u:Xq7@Wv9@127.0.0.1", "file:///u:Xq7Wv9@h/locks",
                    "memory:?u:Xq7Wv9@h"):
            config = os.path.join(self.directory, "c.conf")
            with open(config, "w") as file:
                file.write("[default]\nuri = %s\n" % uri)
            for arguments in (["run", "-vv", "-u", uri, "k", "true"], ["show", "-vv", "-f", config, "k"],
                              ["run", "--url=" + uri, "k", "true"], ["run", "k", uri], ["ping", uri], [uri],
                              ["--uri=" + uri, "ping"], ["show", "k", uri], ["help", uri],
                              ["break", "-u", uri, "k"], ["ping", "-c", uri], ["run", "-w", uri, "k", "true"],
                              ["run", "-E", uri, "k", "true"], ["run", "--on-lost", uri, "k", "true"],
                              ["break", "--token", uri, "k"]):
                self.check_nothing_is_told(arguments, self.env)
            for arguments in (["run", "k", "true"], ["show", "k"], ["break", "k"], ["ping"]):
                self.check_nothing_is_told(arguments, dict(self.env, LOCKER_URI=uri))
            if "://" in uri:
                env = dict(self.env, LOCKER_URI="", LOCKER_CONFIG=uri)
                self.check_nothing_is_told(["ping"], env)
                self.check_nothing_is_told(["ping", "-f", uri], env)
                self.check_nothing_is_told(["ping", "--profile", uri], env)

    def check_nothing_is_told(self, arguments, env):
        done = self.locker(*arguments, env=env)
        self.assertNotEqual(done.returncode, 0, arguments)
        for half in ("Xq7", "Wv9"):
            self.assertNotIn(half, done.stdout + done.stderr, arguments)


if __name__ == "__main__":
    unittest.main()
