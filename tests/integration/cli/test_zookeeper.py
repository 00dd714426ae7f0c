"""locker on a ZooKeeper server: run, show with its queue, break, ping, what is refused."""
import json
import signal
import socket
import threading
import unittest

from clitest import LOCKER, Case, Redis, ZooKeeper


class OtherService:
    """Listens, and answers all that it gets; None: with nothing."""

    def __init__(self, answer):
        self.answer, self.clients = answer, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            client = self.listener.accept()[0]
            self.clients.append(client)
            if self.answer == b"end":
                return
            if self.answer == b"":
                client.close()
            elif self.answer is not None and client.recv(100):
                client.sendall(self.answer)
                client.close()

    def close(self):
        self.answer = b"end"
        with socket.create_connection(("127.0.0.1", self.port)):
            self.thread.join()
        for client in self.clients:
            client.close()
        self.listener.close()


class Run(Case):
    @classmethod
    def setUpClass(cls):
        cls.zookeeper = ZooKeeper()
        cls.addClassCleanup(cls.zookeeper.remove)

    def setUp(self):
        super().setUp()
        self.uri = self.env["LOCKER_URI"] = self.zookeeper.uri

    def show(self, key):
        return json.loads(self.code(0, "show", "--json", key).stdout)

    def test_environment(self):
        tokens = []
        for _ in range(2):
            done = self.code(0, "run", "environment", "env", "-0")
            seen = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if "=" in entry)
            self.assertEqual(seen["LOCKER_BACKEND"], "zookeeper")
            tokens.append(int(seen["LOCKER_TOKEN"]))
        self.assertGreater(tokens[1], tokens[0])

    def test_exclusion_and_the_order_of_arrival(self):
        holder = self.hold("order")
        self.assertIn("order", self.code(75, "run", "-n", "-v", "order", "true").stderr)
        self.wrong(75, "order", "run", "-w", "200ms", "order", "true")
        waiters = []
        for name in ("first", "second", "third"):
            waiters.append(self.start("--owner", name, "order", "--", "cat"))
            waiters[-1].event("waiting")
            self.until(lambda: self.show("order")["waiters"] == len(waiters), "%s should queue" % name)
        seen = self.show("order")
        self.assertTrue(seen["held"])
        self.assertEqual([w["owner"] for w in seen["queue"]], ["first", "second", "third"])
        text = self.code(0, "show", "order").stdout
        self.assertIn("time left: no end is known", text)
        self.assertLess(text.index("first"), text.index("second"))
        self.assertLess(text.index("second"), text.index("third"))
        self.assertEqual(holder.finish(), 0)
        for waiter in waiters:
            waiter.event("acquired")
            self.assertEqual(waiter.finish(), 0)
        self.assertFalse(self.show("order")["held"])

    def test_a_killed_holder_is_followed_when_its_session_ends(self):
        for options in (("-u", self.uri + "?ttl=1s"), ("-t", "1s")):  # the session's time-out, both ways
            holder = self.hold("killed", *options)
            holder.process.kill()
            self.code(0, "run", "-w", "20s", "killed", "true")

    def test_an_ended_wait_leaves_nothing_behind(self):
        holder = self.hold("wait")
        waiter = self.start("wait", "--", "true")
        waiter.event("waiting")
        waiter.process.send_signal(signal.SIGINT)
        self.assertEqual(waiter.finish(), -signal.SIGINT)
        self.until(lambda: self.show("wait")["waiters"] == 0, "the waiter's place should go")
        self.assertEqual(holder.finish(), 0)
        self.code(0, "run", "-n", "wait", "true")

    def test_break(self):
        running = self.hold("break", "--owner", "me")
        self.assertEqual(self.show("break")["owner"], "me")
        self.assertIn("me", self.code(0, "break", "break").stdout)
        self.assertEqual(running.finish(), 76)
        self.assertFalse(self.show("break")["held"])
        self.wrong(1, "'break'", "break", "break")

    def test_nested(self):
        self.wrong(64, "'nested'", "run", "nested", LOCKER, "run", "nested", "true")
        self.code(0, "run", "nested", LOCKER, "run", "-u", self.uri + "?namespace=other", "nested", "true")

    def test_ping_and_drivers(self):
        self.assertRegex(self.code(0, "ping").stdout, r"(?m)^zookeeper: answered in \d+\.\d+ ms$")
        drivers = json.loads(self.code(0, "drivers", "--json").stdout)["drivers"]
        self.assertIn("zookeeper", [driver["name"] for driver in drivers])

    def test_out_of_reach(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))  # bound, and nobody listens
            uri = "zookeeper://127.0.0.1:%d/?connect_timeout=500ms" % closed.getsockname()[1]
            for arguments in (["run", "k", "true"], ["show", "k"], ["break", "k"], ["ping"]):
                self.wrong(69, "127.0.0.1", arguments[0], "-u", uri, *arguments[1:])

    def told(self, port, code, words, *hosts):
        hosts = ",".join(hosts + ("127.0.0.1:%d" % port,))
        self.wrong(code, words, "ping", "-u", "zookeeper://%s/?connect_timeout=100ms" % hosts)

    def test_what_listens_is_told(self):
        redis = Redis()
        self.addCleanup(redis.remove)
        self.told(redis.port, 70, "speaks Redis' protocol")
        self.told(redis.port, 70, "cannot resolve the host 'nowhere.invalid'", "nowhere.invalid")
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            self.told(closed.getsockname()[1], 69, "Connection refused")
        for answer, code, words in ((b"HTTP/1.1 400 Bad Request\r\n\r\n", 70, "speaks HTTP"),
                                    (b"\x15\x03\x03\0\2\2\x46", 70, "speaks TLS"), (b"SSH-2.0-x\r\n", 70, "does not speak ZooKeeper's"),
                                    (b"", 69, "maxClientCnxns"), (None, 69, "does not answer"),
                                    (b"imok", 69, "not part of a majority")):
            other = OtherService(answer)
            self.addCleanup(other.close)
            self.told(other.port, code, words)

    def test_a_signal_ends_connecting(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(1)
            running = self.start("-u", "zookeeper://127.0.0.1:%d/?connect_timeout=30s" % silent.getsockname()[1],
                                 "k", "--", "true")
            connection, _ = silent.accept()
            with connection:
                running.process.send_signal(signal.SIGTERM)
                self.assertEqual(running.finish(), 143)

    def test_logins(self):
        host = "127.0.0.1:%d/logins" % self.zookeeper.port
        mine, theirs = "zookeeper://me:sesame-4711@" + host, "zookeeper://them:other-0815@" + host
        self.code(0, "run", "-u", mine, "k", "true")
        for arguments in (["run", "k", "true"], ["show", "k"], ["break", "k"]):
            done = self.wrong(77, "", arguments[0], "-u", theirs, *arguments[1:])
            self.assertNotIn("0815", done.stderr)
        self.env["LOCKER_PASSWORD"] = "sesame-4711"
        self.code(0, "run", "-u", "zookeeper://me@" + host, "k", "sh", "-c", "[ -z \"$LOCKER_PASSWORD\" ]")

    def test_wrong_uris(self):
        base = "zookeeper://127.0.0.1:%d" % self.zookeeper.port
        for uri, names in ((base + "/a//b", "path"), (base + "/?frob=1", "frob"),
                           (base + "/?session_timeout=never", "session_timeout")):
            self.wrong(78, names, "run", "-u", uri, "k", "true")
        for feature in ("tls", "sasl"):
            self.assertIn(feature, self.code(78, "run", "-u", base + "/?%s=on" % feature, "k", "true").stderr)


class Gone(Case):
    def test_a_service_that_dies_while_waited_for(self):
        """69, not 75: at the end of the wait nobody knows who holds the lock."""
        zookeeper = ZooKeeper()
        self.addCleanup(zookeeper.remove)
        self.hold("k", "-u", zookeeper.uri)
        waiter = self.start("-u", zookeeper.uri, "-w", "3s", "k", "--", "true")
        waiter.event("waiting")
        zookeeper.process.kill()
        self.assertEqual(waiter.finish(), 69)
        for wait in (("-n",), ("-w", "3s")):
            self.wrong(69, "127.0.0.1", "run", "-u", zookeeper.uri + "?connect_timeout=1h", *wait, "k", "true")


class OfZooKeepersDefault(ZooKeeper):
    """With the limit of connections from one host that a server has where zoo.cfg names none: 60."""

    def configure(self):
        super().configure()
        with open(self.directory + "/zoo.cfg", "r+", encoding="ascii") as file:
            text = file.read().replace("maxClientCnxns=0\n", "")
            file.seek(0)
            file.truncate()
            file.write(text)


class Full(Case):
    def test_a_full_server_is_waited_for(self):
        server = OfZooKeepersDefault()
        self.addCleanup(server.remove)
        self.waits_for_room(server.uri, server.port, 60, "maxClientCnxns", "?connect_timeout=200ms")


if __name__ == "__main__":
    unittest.main()
