"""locker on a Redis server: leases, the environment, refusals, hand-off."""
import json
import os
import re
import signal
import socket
import time
import unittest

from clitest import LOCKER, Redis, RedisCase, timely


class Run(RedisCase):
    def tearDown(self):
        self.redis.ask("FLUSHALL")

    def show(self, key):
        return json.loads(self.code(0, "show", "--json", key).stdout)

    def variables(self, *options):
        done = self.code(0, "run", *options, "k", "env", "-0")
        return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if "=" in entry)

    def test_environment(self):
        seen = self.variables("-t", "20s")
        self.assertEqual((seen["LOCKER_BACKEND"], seen["LOCKER_TTL_MS"]), ("redis", "20000"))
        first = int(seen["LOCKER_TOKEN"])
        seen = self.variables("-u", self.uri + "?ttl=10s")
        self.assertTrue(9000 < int(seen["LOCKER_TTL_MS"]) <= 10000, seen["LOCKER_TTL_MS"])
        self.assertGreater(int(seen["LOCKER_TOKEN"]), first)
        self.assertEqual(self.variables("-u", self.uri + "?fencing=off")["LOCKER_TOKEN"], "0")

    def test_a_full_server_is_waited_for(self):
        server = Redis()
        self.addCleanup(server.remove)
        server.ask("CONFIG", "SET", "maxclients", "4")
        self.waits_for_room(server.uri, server.port, 4, "max number of clients")

    def test_exclusion_and_hand_off(self):
        holder = self.hold("k")
        self.assertIn("k", self.code(75, "run", "-n", "-v", "k", "true").stderr)
        self.wrong(75, "k", "run", "-w", "200ms", "k", "true")
        waiter = self.start("k", "--", "echo", "mine")
        waiter.event("waiting")
        self.assertEqual(holder.finish(), 0)
        self.assertEqual(waiter.output.next(), "mine")
        self.assertEqual(waiter.finish(), 0)
        self.assertEqual(self.redis.ask("EXISTS", "k"), ":0")

    def test_a_killed_holder_is_followed_when_its_lease_ends(self):
        holder = self.hold("k", "-t", "1s")
        holder.process.kill()
        self.code(0, "run", "-w", "20s", "k", "true")

    def test_an_ended_wait_leaves_nothing_behind(self):
        holder = self.hold("k")
        waiter = self.start("k", "--", "true")
        waiter.event("waiting")
        waiter.process.send_signal(signal.SIGINT)
        self.assertEqual(waiter.finish(), -signal.SIGINT)
        self.assertEqual(holder.finish(), 0)
        self.assertEqual(self.redis.ask("EXISTS", "k"), ":0")
        self.code(0, "run", "-n", "k", "true")

    @timely
    def test_a_signal_ends_a_wait_for_several_keys_on_a_stopped_server(self):
        """What had been locked is given back in the background: not one key after the other, each with a time-out."""
        holder = self.hold("z")
        also = [word for n in range(7) for word in ("--also", "k%d" % n)]
        waiter = self.start(*also, "z", "--", "true")
        waiter.event("waiting")
        self.redis.freeze()
        try:
            began = time.monotonic()
            waiter.process.send_signal(signal.SIGTERM)
            self.assertEqual(waiter.finish(), 143)
            self.assertLess(time.monotonic() - began, 8)
        finally:
            self.redis.thaw()
        holder.finish()

    def test_show_and_break(self):
        running = self.hold("k", "--owner", "me", "-t", "20s")
        seen = self.show("k")
        self.assertTrue(seen["held"])
        self.assertTrue(10000 < seen["remaining_ms"] <= 20000, seen)
        self.assertIn("time left:", self.code(0, "show", "k").stdout)
        self.code(0, "break", "k")
        self.assertFalse(self.show("k")["held"])
        self.redis.ask("SET", "k", "a-client-of-another-kind")
        self.assertIn("time left: no end is known", self.code(0, "show", "k").stdout)
        self.redis.ask("DEL", "k")
        self.wrong(1, "'k'", "break", "k")
        running.finish()

    def test_nested(self):
        self.wrong(64, "'k'", "run", "k", LOCKER, "run", "k", "true")
        self.wrong(64, "'k'", "run", "k", LOCKER, "run", "-u", self.uri.replace("/0", ""), "k", "true")
        self.code(0, "run", "k", LOCKER, "run", "-u", self.uri + "?namespace=other", "k", "true")
        self.code(0, "run", "k", LOCKER, "run", "-u", self.uri.replace("/0", "/1"), "k", "true")
        self.wrong(64, "'k'", "run", "-u", self.uri + "?fencing=off", "k", LOCKER, "run", "k", "true")

    def test_the_lease_time_is_what_was_asked_for(self):
        for options, ms in (([], "30000"), (["-t", "7s"], "7000"), (["-u", self.uri + "?ttl=9s"], "9000")):
            self.assertEqual(self.code(0, "run", *options, "k", "sh", "-c", "echo $LOCKER_TTL_MS").stdout, ms + "\n")

    @timely
    def test_steps(self):
        said = self.code(0, "run", "-vv", "-t", "1500ms", "k", "sleep", "2").stderr
        self.assertIn("the locks are kept by redis://127.0.0.1:%d" % self.redis.port, said)
        self.assertIn("holding 'k'", said)
        self.assertIn("renewed 'k'", said)

    @timely
    def test_busy_and_waiting_name_the_holder(self):
        holder = self.hold("k", "--owner", "the holder")
        self.assertIn("'k' is held by the holder since ", self.code(75, "run", "-n", "-v", "k", "true").stderr)
        said = self.code(75, "run", "-v", "-w", "2.5s", "k", "true").stderr
        self.assertIn("waiting for 'k', held by the holder since ", said)
        self.assertIn("'k' did not become free within 2.5s; it is held by the holder since ", said)
        holder.finish()

    def test_ping_and_drivers(self):
        self.assertRegex(self.code(0, "ping").stdout, r"(?m)^redis: answered in \d+\.\d+ ms$")
        for scheme in ("valkey", "VALKEY"):
            self.assertRegex(self.code(0, "ping", "-u", self.uri.replace("redis", scheme)).stdout, "(?m)^valkey: answered in ")
        names = [driver["name"] for driver in json.loads(self.code(0, "drivers", "--json").stdout)["drivers"]]
        self.assertIn("redis", names)

    def test_lease_times(self):
        self.wrong(64, "ms", "run", "-t", "1ms", "k", "true")
        self.wrong(78, "ms", "run", "-u", self.uri + "?ttl=1ms", "k", "true")
        # What the grant left of 4 s, less the 1.333 s to the first renewal.
        said = self.wrong(64, "--kill-after", "run", "-u", self.uri + "?ttl=4s", "-k", "3s", "k", "true").stderr
        most = int(re.search(r"at most (\d+)ms", said).group(1))
        self.assertTrue(1000 < most <= 2667, said)
        self.wrong(64, "--kill-after", "run", "-t", "4s", "-k", "2667ms", "k", "true")
        self.code(0, "run", "-u", self.uri + "?ttl=4s", "-k", "1s", "k", "true")
        self.assertEqual(self.redis.ask("EXISTS", "k"), ":0")


class Refusals(RedisCase):
    def test_out_of_reach(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))  # bound, and nobody listens
            uri = "redis://127.0.0.1:%d/0" % closed.getsockname()[1]
            for arguments in (["run", "k", "true"], ["show", "k"], ["break", "k"], ["ping"]):
                self.wrong(69, "127.0.0.1", arguments[0], "-u", uri, *arguments[1:])

    def test_out_of_descriptors(self):
        self.starve("run", "-u", self.uri.replace("127.0.0.1", "localhost"), "k", "true")

    def test_a_signal_ends_connecting(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(1)
            running = self.start("-u", "redis://127.0.0.1:%d/0?connect_timeout=30s" % silent.getsockname()[1],
                                 "k", "--", "true")
            connection, _ = silent.accept()
            with connection:
                running.process.send_signal(signal.SIGTERM)
                self.assertEqual(running.finish(), 143)

    def test_passwords(self):
        self.redis.ask("CONFIG", "SET", "requirepass", "sesame-4711")
        address = "127.0.0.1:%d/0" % self.redis.port
        for arguments in (["run", "k", "true"], ["show", "k"], ["ping"]):
            self.wrong(77, "", arguments[0], "-u", "redis://" + address, *arguments[1:])
            done = self.wrong(77, "", arguments[0], "-u", "redis://:wrong-0815@" + address, *arguments[1:])
            self.assertNotIn("wrong-0815", done.stderr)
        self.code(0, "run", "-u", "redis://:sesame-4711@" + address, "k", "true")
        self.env["LOCKER_PASSWORD"] = "sesame-4711"
        self.code(0, "run", "-u", "redis://" + address, "k", "sh", "-c", "[ -z \"$LOCKER_PASSWORD\" ]")
        self.env["LOCKER_PASSWORD"] = "wrong-0815"
        self.assertNotIn("0815", self.code(77, "run", "-vv", "-u", "redis://" + address, "k", "true").stderr)

    def test_wrong_uris(self):
        base = "redis://127.0.0.1:%d" % self.redis.port
        for uri, names in ((base + "/x", "path"), (base + "/0?poll=never", "poll"), (base + "/0?frob=1", "frob"),
                           ("redis://127.0.0.1:99999/0", "99999"), (base + "/0?fencing=maybe", "fencing")):
            self.wrong(78, names, "run", "-u", uri, "k", "true")


class Profiles(RedisCase):
    def test_a_driver_is_a_scheme_in_small_letters_and_capitals(self):
        """One that means TLS is TLS, and never the plain text that the server would take."""
        path = os.path.join(self.directory, "locker.conf")
        with open(path, "w", encoding="utf-8") as file:
            for driver in ("valkey", "Valkey", "rediss", "REDISS", "Valkeys"):
                file.write("[%s]\ndriver = %s\nhost = 127.0.0.1\nport = %d\n" % (driver, driver, self.redis.port))
        del self.env["LOCKER_URI"]
        for driver in ("valkey", "Valkey"):
            self.code(0, "run", "--config", path, "--profile", driver, "k", "true")
        for driver in ("rediss", "REDISS", "Valkeys"):
            self.wrong(70, "does not speak TLS", "run", "--config", path, "--profile", driver, "k", "true")


class Gone(RedisCase):
    def test_a_service_that_dies_while_waited_for(self):
        """69, not 75: at the end of the wait nobody knows who holds the lock."""
        redis = Redis()
        self.addCleanup(redis.remove)
        self.hold("k", "-u", redis.uri)
        waiter = self.start("-u", redis.uri, "-w", "3s", "k", "--", "true")
        waiter.event("waiting")
        redis.process.kill()
        self.assertEqual(waiter.finish(), 69)
        for wait in (("-n",), ("-w", "3s")):
            self.wrong(69, "127.0.0.1", "run", "-u", redis.uri, *wait, "k", "true")


class Passwords(RedisCase):
    def test_no_password_is_passed_on(self):
        self.redis.ask("CONFIG", "SET", "requirepass", "sesame-4711")
        address = "127.0.0.1:%d/0" % self.redis.port
        password = os.path.join(self.directory, "password")
        with open(password, "w") as file:
            file.write("sesame-4711\n")
        for uri, passed in (("redis://:sesame-4711@" + address, "redis://" + address),
                            ("redis://default:sesame-4711@" + address, "redis://default@" + address),
                            ("redis://%s?password_file=%s" % (address, password),) * 2):
            self.env["LOCKER_URI"] = uri
            self.assertEqual(self.code(0, "run", "k", "sh", "-c", "echo $LOCKER_URI").stdout, passed + "\n")
        self.code(0, "run", "k", LOCKER, "run", "other", "true")
        self.env["LOCKER_URI"] = "redis://:sesame-4711@" + address
        self.assertIn("password_file", self.code(77, "run", "k", LOCKER, "run", "other", "true").stderr)
        for uri in ("redis://:sesame/4711@" + address, "redis://%s?ttl=9s&Password=sesame-4711" % address):
            self.env["LOCKER_URI"] = uri
            self.assertEqual(self.code(0, "run", "-u", self.uri + "?password_file=" + password, "k", "sh", "-c",
                                       "echo $LOCKER_URI").stdout, "\n")


if __name__ == "__main__":
    unittest.main()
