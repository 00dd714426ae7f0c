"""locker run on the file driver: exclusion, waiting, exit codes, environment, descriptors, status lines."""
import json
import os
import resource
import signal
import socket
import subprocess
import time
import unittest

from clitest import LIMIT, LOCKER, Case, timely


class ExitCodes(Case):
    def test_the_commands_own(self):
        for code in (0, 1, 3, 64, 75, 76, 126, 127, 255):
            self.code(code, "run", "k", "sh", "-c", "exit %d" % code)

    def test_killed_by_a_signal(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1):
            self.code(128 + number, "run", "k", "sh", "-c", "kill -%d $$" % number)

    def test_not_found_and_not_executable(self):
        self.wrong(127, "'/no/such/program'", "run", "k", "/no/such/program")
        self.wrong(127, "'no-such-program'", "run", "k", "no-such-program")
        path = os.path.join(self.directory, "plain")
        with open(path, "w") as file:
            file.write("text\n")
        self.wrong(126, "plain", "run", "k", path)
        self.wrong(126, self.directory, "run", "k", self.directory)
        self.assertFalse(self.json_show("k")["held"])

    def test_out_of_threads(self):
        """The library's one thread is not to be had; root knows no such limit, so it is another user's."""
        done = self.wrong(71, "raise the limit on processes and threads (ulimit -u", "show", "-u", "memory:", "k",
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)),
                          **({"user": 59000 + os.getpid() % 1000, "program": self.everybodys()}
                             if os.geteuid() == 0 else {}))
        self.assertIn("thread", done.stderr)

    def test_out_of_descriptors(self):
        for options in ((), ("-F",)):
            self.starve("run", *options, "k", "true")

    def test_out_of_descriptors_before_the_command_starts(self):
        """It either runs to its end, or has not begun."""
        ran = os.path.join(self.directory, "ran")
        limit = resource.RLIMIT_NOFILE
        for count in range(10, 26):
            done = self.locker("run", "k", "touch", ran, preexec_fn=lambda: resource.setrlimit(limit, (count, count)))
            self.assertIn(done.returncode, (0, 71), done.stderr)
            self.assertNotIn("was killed", done.stderr)
            self.assertEqual(os.path.exists(ran), done.returncode == 0, "%d: %s" % (count, done.stderr))
            if done.returncode == 0:
                os.unlink(ran)

    def json_show(self, key):
        return json.loads(self.code(0, "show", "--json", key).stdout)

    def test_conflict(self):
        holder = self.hold("k")
        for arguments in (["-w", "0"], ["-w", "50ms"], ["--wait=0.05"]):
            self.wrong(75, "k", "run", *arguments, "k", "true")
        for arguments in (["-n"], ["--nonblock"]):  # no mail from cron(8)
            self.assertEqual(self.code(75, "run", *arguments, "k", "true").stderr, "")
        self.assertIn("'k' is held by ", self.code(75, "run", "-n", "-v", "k", "true").stderr)
        self.wrong(75, "'k' did not become free within 50ms; it is held by ", "run", "-w", "50ms", "k", "true")
        self.code(9, "run", "-n", "-E", "9", "k", "true")
        self.code(0, "run", "-n", "-E", "0", "k", "false")
        self.wrong(255, "k", "run", "-w", "10ms", "--conflict-exit-code=255", "k", "true")
        self.assertEqual(self.code(75, "run", "-q", "-n", "k", "true").stderr, "")
        self.assertEqual(holder.finish(), 0)
        self.code(0, "run", "-n", "k", "true")

    @timely
    def test_a_timed_wait_bounds_the_opening_too(self):
        """Of a service that accepts connections and says nothing."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            for scheme in ("redis", "etcd", "zookeeper"):
                start = time.monotonic()
                done = self.locker("run", "-w", "500ms", "-u", "%s://127.0.0.1:%d" % (scheme, silent.getsockname()[1]), "k", "true")
                if "not built" not in done.stderr:
                    self.assertEqual(done.returncode, 69, done.stderr)
                    self.assertLess(time.monotonic() - start, 2.0)

    def test_a_timed_wait_takes_its_time(self):
        self.hold("k")
        start = time.monotonic()
        self.code(75, "run", "-w", "300ms", "k", "true")
        self.assertGreaterEqual(time.monotonic() - start, 0.3)


class Exclusion(Case):
    def test_a_counter(self):
        counter = os.path.join(self.directory, "counter")
        with open(counter, "w") as file:
            file.write("0\n")
        script = "for i in 1 2 3 4 5 6 7 8 9 10; do " \
                 "\"$0\" run -c 'n=$(cat %s); echo $((n + 1)) >%s' count || exit; done" % (counter, counter)
        workers = [subprocess.Popen(["sh", "-c", script, LOCKER], env=self.env) for _ in range(4)]
        for worker in workers:
            self.assertEqual(worker.wait(4 * LIMIT), 0)
        with open(counter) as file:
            self.assertEqual(file.read(), "40\n")

    def test_a_waiter_gets_it(self):
        holder = self.hold("k")
        waiter = self.start("k", "--", "echo", "mine")
        waiter.event("waiting")
        self.assertEqual(holder.finish(), 0)
        self.assertEqual(waiter.output.next(), "mine")
        self.assertEqual(waiter.finish(), 0)

    def test_a_killed_holder_frees_the_lock_and_its_command_is_killed(self):
        holder = self.start("k", "--", "sh", "-c", "echo $$; exec cat")
        holder.event("acquired")
        command = int(holder.output.next())
        holder.process.kill()
        self.code(0, "run", "-w", "20s", "k", "true")
        self.assert_gone(command)

    def test_a_process_left_behind_does_not_keep_it(self):
        done = self.code(0, "run", "k", "sh", "-c", "sleep 60 >/dev/null 2>&1 </dev/null & echo $!")
        try:
            self.code(0, "run", "-n", "k", "true")
        finally:
            os.kill(int(done.stdout), signal.SIGKILL)


class Command(Case):
    def test_shell(self):
        self.assertEqual(self.code(5, "run", "-c", "echo $0 hi; exit 5", "k").stdout, "/bin/sh hi\n")
        self.assertEqual(self.code(5, "run", "k", "-c", "echo hi; exit 5").stdout, "hi\n")
        self.assertEqual(self.code(0, "run", "--command=echo hi", "k").stdout, "hi\n")
        del self.env["SHELL"]
        self.assertEqual(self.code(0, "run", "-c", "echo $0", "k").stdout, "/bin/sh\n")
        self.env["SHELL"] = "/bin/echo"
        self.assertEqual(self.code(0, "run", "-c", "said", "k").stdout, "-c said\n")

    def test_arguments_are_passed_as_they_are(self):
        for arguments in (["run", "k", "printf", "%s.", "-n", "--", "a b", ""],
                          ["run", "k", "--", "printf", "%s.", "-n", "--", "a b", ""],
                          ["run", "--", "k", "printf", "%s.", "-n", "--", "a b", ""]):
            self.assertEqual(self.code(0, *arguments).stdout, "-n.--.a b..")

    def test_standard_streams(self):
        done = subprocess.run([LOCKER, "run", "k", "sh", "-c", "cat; echo err >&2"], env=self.env, input="in",
                              capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual((done.stdout, done.stderr), ("in", "err\n"))

    def test_descriptors(self):
        """None of ours reaches the command, all of the caller's do, and closed ones stay closed."""
        script = "for fd in /proc/self/fd/*; do readlink $fd || :; done"
        fd = os.open("/dev/zero", os.O_RDONLY)
        try:
            listed = self.code(0, "run", "k", "sh", "-c", script, pass_fds=[fd]).stdout.split("\n")
        finally:
            os.close(fd)
        self.assertIn("/dev/zero", listed)
        self.assertFalse([name for name in listed if "locks" in name or "anon_inode" in name or "tty" in name],
                         listed)
        self.assertEqual(len([name for name in listed if "pipe" in name]), 2, listed)
        closed = subprocess.run(
            ["sh", "-c", 'exec "$0" run -q k sh -c "[ ! -e /proc/self/fd/0 ] && [ ! -e /proc/self/fd/2 ]" <&- 2>&-',
             LOCKER], env=self.env, timeout=LIMIT)
        self.assertEqual(closed.returncode, 0)

    def test_signal_state_is_inherited_as_it_was(self):
        def prepare():
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGALRM])

        read = ["grep", "^Sig[BI]", "/proc/self/status"]
        direct = subprocess.run(read, preexec_fn=prepare, restore_signals=False, capture_output=True, text=True)
        for options in ([], ["-w", "20s"]):
            under = subprocess.run([LOCKER, "run"] + options + ["k"] + read, env=self.env, preexec_fn=prepare,
                                   timeout=LIMIT, restore_signals=False, capture_output=True, text=True)
            self.assertEqual(under.stdout, direct.stdout)


class Environment(Case):
    def variables(self, *options, key="some key"):
        done = self.code(0, "run", *options, key, "env", "-0")
        return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if "=" in entry)

    def test_what_the_command_gets(self):
        self.env.update(LOCKER_PASSWORD="secret", LOCKER_HELD="stale", OTHER="kept")
        seen = self.variables("--owner", "me myself")
        self.assertEqual(seen["LOCKER_HELD"], "1")
        self.assertEqual(seen["LOCKER_KEY"], "some key")
        self.assertEqual(seen["LOCKER_OWNER"], "me myself")
        self.assertEqual(seen["LOCKER_BACKEND"], "file")
        self.assertEqual(seen["LOCKER_TTL_MS"], "0")
        self.assertEqual(seen["OTHER"], "kept")
        self.assertNotIn("LOCKER_PASSWORD", seen)
        self.assertEqual(seen["LOCKER_URI"], self.uri)
        self.assertGreater(int(self.variables()["LOCKER_TOKEN"]), int(seen["LOCKER_TOKEN"]))

    def test_backend_of_a_profile_and_of_the_default(self):
        del self.env["LOCKER_URI"]
        config = os.path.join(self.directory, "c.conf")
        with open(config, "w") as file:
            file.write("[default]\nuri = %s\n" % self.uri)
        self.assertEqual(self.variables("-f", config)["LOCKER_BACKEND"], "file")

    def test_a_lock_of_one_process_excludes_nobody(self):
        self.wrong(78, "memory", "run", "-u", "memory:", "k", "true")
        self.wrong(78, "memory", "run", "-u", "memory:x", "-n", "k", "true")

    def test_a_nested_run_on_the_same_key_is_refused(self):
        self.wrong(64, "'k'", "run", "k", LOCKER, "run", "k", "true")
        self.wrong(64, "'k'", "run", "k", LOCKER, "run", "other", LOCKER, "run", "-n", "k", "true")
        # Another name for the same directory is the same service.
        self.wrong(64, "'k'", "run", "k", LOCKER, "run", "-u", self.uri + "/../locks", "k", "true")

    def test_a_nested_permit_is_had_while_one_is_free(self):
        self.code(0, "run", "-p", "3", "k", LOCKER, "run", "-p", "3", "k", LOCKER, "run", "-n", "-p", "3", "k", "true")
        self.wrong(64, "'k'", "run", "-p", "2", "k", LOCKER, "run", "-p", "2", "k", LOCKER, "run", "-p", "2", "k", "true")

    def test_a_nested_run_on_another_key_or_service_is_not(self):
        self.code(0, "run", "k", LOCKER, "run", "other", "true")
        self.code(0, "run", "k", LOCKER, "run", "-u", self.uri + "2", "k", "true")

    def test_a_stale_entry_does_not_matter(self):
        seen = self.variables(key="k")
        self.env["LOCKER_HELD_KEYS"] = seen["LOCKER_HELD_KEYS"] + "\nnonsense\nfile x k\nfile 1 k\n\n"
        self.code(0, "run", "-n", "k", "true")


class StatusLines(Case):
    def test_all_of_them(self):
        running = self.start("--owner", "me", "k", "--", "sh", "-c", "exit 4")
        self.assertEqual(running.finish(), 4)
        acquired, exited, released = running.events()
        self.assertEqual((acquired["event"], acquired["key"], acquired["backend"], acquired["owner"],
                          acquired["ttl_ms"]), ("acquired", "k", "file", "me", None))
        self.assertGreater(acquired["token"], 0)
        self.assertEqual((exited["event"], exited["code"], exited["signal"]), ("exited", 4, None))
        self.assertEqual((released["event"], released["status"]), ("released", "ok"))

    def test_killed(self):
        running = self.start("k", "--", "sh", "-c", "kill -9 $$")
        self.assertEqual(running.finish(), 137)
        self.assertEqual([(e["code"], e["signal"]) for e in running.events() if e["event"] == "exited"],
                         [(None, 9)])

    def test_the_event_waiting_comes_only_if_the_lock_is_held(self):
        holder = self.hold("k")
        waiter = self.start("k", "--", "true")
        waiter.event("waiting")
        holder.finish()
        self.assertEqual(waiter.finish(), 0)
        self.assertEqual([e["event"] for e in waiter.events()], ["acquired", "exited", "released"])

    def test_a_line_longer_than_a_pipe_takes_at_once(self):
        more = [word for i in range(40) for word in ("--also", "%d" % i + 250 * "x")]
        running = self.start(*more, "k", "--", "true")
        self.assertEqual(len(running.event("acquired")["tokens"]), 41)
        self.assertEqual(running.finish(), 0)

    def test_on_standard_output(self):
        done = self.code(0, "run", "--status-fd", "1", "k", "echo", "hi")
        self.assertIn("hi\n", done.stdout)
        self.assertIn('"event":"acquired"', done.stdout)

    def test_a_reader_that_is_gone_does_no_harm(self):
        read, write = os.pipe()
        os.close(read)
        try:
            self.code(3, "run", "--status-fd", str(write), "k", "sh", "-c", "exit 3", pass_fds=[write])
        finally:
            os.close(write)

    def test_a_reader_that_does_not_read_does_no_harm(self):
        read, write = os.pipe()
        os.set_blocking(write, False)
        try:
            while True:
                os.write(write, b"x" * 4096)
        except BlockingIOError:
            pass
        os.set_blocking(write, True)
        try:
            self.code(3, "run", "--status-fd", str(write), "k", "sh", "-c", "exit 3", pass_fds=[write])
        finally:
            os.close(read)
            os.close(write)

    def test_the_command_does_not_get_it(self):
        running = self.start("k", "--", "sh", "-c", "ls /proc/self/fd")
        self.assertEqual(running.finish(), 0)
        self.assertEqual(running.output.all()[:3], ["0", "1", "2"])
        self.assertIn("released", [e["event"] for e in running.events()])


class Verbosity(Case):
    def test_quiet_by_default(self):
        self.assertEqual(self.code(0, "run", "k", "true").stderr, "")

    def test_verbose(self):
        self.assertIn("holding 'k'", self.code(0, "run", "-v", "k", "true").stderr)
        self.assertIn("holding 'k'", self.code(0, "run", "-vv", "k", "true").stderr)


if __name__ == "__main__":
    unittest.main()
