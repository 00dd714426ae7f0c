"""Faults that were planted in clients of real servers: locker check-history finds each in the history, and nothing in
that of the same client without it."""
import json
import logging
import os
import unittest

from clitest import Case, Redis, ZooKeeper
from faulty import History, LosingProxy, RedisClient, ZooClient, now, until

try:
    import kazoo.client
    import kazoo.exceptions
except ImportError as error:
    raise AssertionError("kazoo is missing: install python3-kazoo") from error

logging.getLogger("kazoo").setLevel(logging.ERROR)  # it warns of the connection that a test breaks
SHORT = 300  # a lease, in ms, whose end is waited for


class Planted(Case):
    def history(self, backend):
        self.path = os.path.join(self.directory, "history.jsonl")
        history = History(self.path, backend)
        self.addCleanup(history.close)
        return history

    def broken(self):
        done = self.locker("check-history", "--json", self.path)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        checks = json.loads(done.stdout)["checks"]
        return {name for name, check in checks.items() if check["result"] == "broken"}

    def found(self, *names):
        self.assertLessEqual(set(names), self.broken())

    def clean(self, *seen):
        """Nothing is broken, and these checks had something to see."""
        self.assertEqual(self.broken(), set())
        checks = json.loads(self.locker("check-history", "--json", self.path).stdout)["checks"]
        for name in seen:
            self.assertEqual(checks[name]["result"], "kept", name)


class OnRedis(Planted):
    @classmethod
    def setUpClass(cls):
        cls.redis = Redis()
        cls.addClassCleanup(cls.redis.remove)

    def setUp(self):
        super().setUp()
        self.redis.ask("FLUSHALL")
        self.lines = self.history("redis")

    def client(self, process, fault=None, ttl_ms=30000):
        client = RedisClient(self.lines, process, self.redis, fault, ttl_ms)
        self.addCleanup(client.close)
        return client

    def delete(self, fault):
        late, holder, third = self.client(1, fault, SHORT), self.client(2), self.client(3)
        late.lock()
        holder.lock()  # when the first lease has ended
        holder.look()
        said_released = late.unlock()
        if third.try_lock():
            third.look()
            third.unlock()
        holder.look()
        holder.unlock()
        holder.look()
        return said_released

    def test_delete_without_compare(self):
        self.assertTrue(self.delete("delete"))
        self.found("release", "overlap", "truth")

    def test_delete_with_compare(self):
        self.assertFalse(self.delete(None))
        self.clean("release", "overlap", "truth")

    def receive(self, fault):
        slow, holder = self.client(1, fault, SHORT), self.client(2)
        slow.lock(meanwhile=holder.lock)  # its reply is read when its lease has ended and another has the lock
        holder.look()
        slow.end()
        holder.unlock()
        holder.look()

    def test_deadline_from_the_receive_time(self):
        self.receive("receive")
        self.found("overlap")

    def test_deadline_from_the_send_time(self):
        self.receive(None)
        self.clean("overlap", "truth")

    def xx(self, fault):
        stalled, holder = self.client(1, fault, SHORT), self.client(2)
        stalled.lock()
        holder.lock()  # when the first lease has ended
        kept = stalled.renew()
        holder.look()
        stalled.end()
        return kept, holder.unlock()

    def test_renewal_by_set_xx(self):
        self.assertEqual(self.xx("xx"), (True, False))
        self.found("overlap", "truth")

    def test_renewal_with_compare(self):
        self.assertEqual(self.xx(None), (False, True))
        self.clean("overlap", "truth")

    def ping(self, fault):
        holder, other = self.client(1, fault, SHORT), self.client(2)
        holder.lock()
        end = now() + 3 * SHORT * 1000000
        while holder.renew():
            if now() > end and fault is None:
                holder.unlock()
                other.lock()
                break
            if other.try_lock():
                holder.renew()
                break
        else:  # this machine was too slow to renew in time, and the holder knows
            other.lock()
        other.look()
        holder.end()
        other.unlock()

    def test_deadline_by_ping(self):
        self.ping("ping")
        self.found("overlap")

    def test_deadline_by_confirmed_renewal(self):
        self.ping(None)
        self.clean("overlap", "truth")


class OnZooKeeper(Planted):
    @classmethod
    def setUpClass(cls):
        cls.server = ZooKeeper()
        cls.addClassCleanup(cls.server.remove)

    def setUp(self):
        super().setUp()
        self.lines = self.history("zookeeper")
        self.looker = ZooClient(self.lines, 99, self.connect())
        self.looker.client.ensure_path(ZooClient.PATH)
        until("the queue is empty", lambda: not self.looker.children())

    def connect(self, port=None):
        client = kazoo.client.KazooClient(hosts="127.0.0.1:%d" % (port or self.server.port),
                                          timeout=ZooClient.SESSION_S)
        client.start()
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        return client

    def ping(self, fault):
        holder = ZooClient(self.lines, 1, self.connect(), fault)
        other = ZooClient(self.lines, 2, self.connect())
        holder.lock()
        self.looker.client.delete(ZooClient.PATH + "/" + holder.node)
        kept = holder.renew()
        other.lock()
        if kept:
            holder.renew()
        self.looker.look()
        holder.end()
        other.unlock(kazoo.exceptions.NoNodeError)
        self.looker.look()

    def test_deadline_by_the_session_alone(self):
        self.ping("ping")
        self.found("overlap", "truth")

    def test_deadline_by_the_own_node(self):
        self.ping(None)
        self.clean("overlap", "truth", "tokens")

    def lost_reply(self, fault):
        proxy = LosingProxy(self.server.port)
        self.addCleanup(proxy.cut_all)
        client = ZooClient(self.lines, 1, self.connect(proxy.port), fault)
        got = client.lock(kazoo.exceptions.ConnectionLoss, turns=20)
        self.assertTrue(proxy.lost.is_set())
        self.looker.look()
        if got:
            client.unlock(kazoo.exceptions.NoNodeError)
            self.looker.look()
        return got

    def test_a_node_without_a_uuid(self):
        self.assertFalse(self.lost_reply("nameless"))
        self.found("orphans")

    def test_a_node_with_a_uuid(self):
        self.assertTrue(self.lost_reply(None))
        self.clean("orphans", "truth", "release")


if __name__ == "__main__":
    unittest.main()
