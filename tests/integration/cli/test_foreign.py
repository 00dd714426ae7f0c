"""Labels that clients of other kinds wrote at a server, or that others changed there: what show, break and the busy message print
of them can't drive a terminal, and JSON is JSON."""
import base64
import json
import re
import subprocess
import unittest

from clitest import LIMIT, LOCKER, Case
from servers import EtcdServer, RedisServer, ZooServer, encode

# C0, DEL, C1, line and paragraph separators, what reorders text; a line of output may end.
ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\udc80-\udcff]")
EVIL = ("\x1b[31mred", "two\nlines", "\rforged", "\u009b31mred", "\u202egnirts", "\x7f\x7f", "\u2028two")
LABEL = "A" * 12  # what is replaced
CHANGE_NODE = """
import sys
from kazoo.client import KazooClient
client = KazooClient(sys.argv[1], timeout=30)
client.start(30)
for node in client.get_children(sys.argv[2]):
    client.set(sys.argv[2] + "/" + node, sys.argv[3].encode("utf-8", "surrogateescape"))
client.stop()
"""


class Foreign:
    """The same tests with each service. A subclass has `service`, and spoil(key, text): write the text as the holder's label."""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.service()
        cls.server.begin()
        cls.addClassCleanup(cls.server.remove)

    def setUp(self):
        super().setUp()
        self.uri = self.env["LOCKER_URI"] = self.server.uri

    def said(self, codes, *arguments):
        done = subprocess.run([LOCKER, *arguments], env=self.env, timeout=LIMIT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
        text = (done.stdout + done.stderr).decode("utf-8", "surrogateescape")
        self.assertIn(done.returncode, codes, text)
        self.assertIsNone(ACTS.search(text), repr(text))
        return text

    def end(self, key):
        """etcd's driver takes a key with such a label for an application's data, and deletes it by force alone."""
        if "--force" in self.said((0, 78) if self.service is EtcdServer else (0,), "break", key):
            self.said((0,), "break", "--force", key)

    def test_labels(self):
        for number, evil in enumerate(EVIL):
            with self.subTest(repr(evil)):
                key = "k%d" % number
                holder = self.hold(key, "-t", "60s", "--on-lost", "ignore", "--owner", LABEL)
                self.assertIn(LABEL, self.said((0,), "show", key))  # a holder at Redis says who it is a moment after its grant
                self.spoil(key, evil)
                shown = self.said((0,), "show", key)
                self.assertTrue("\\x" in shown or "\\u" in shown or "not known" in shown, shown)
                self.assertTrue(json.loads(self.said((0,), "show", "--json", key))["held"])
                busy = self.said((75,), "run", "-n", "-v", key, "true")
                late = self.said((75,), "run", "-w", "100ms", "-v", key, "true")
                for text in (busy, late):
                    self.assertRegex(text, "is held by [^\n]*, at %s [(]from LOCKER_URI[)]\n" % re.escape(self.uri))
                self.end(key)
                holder.finish()


class AtRedis(Foreign, Case):
    service = RedisServer

    def spoil(self, key, text):
        name = "{%s}:locker:info" % key
        self.assertEqual(self.server.ask("SET", name, self.server.ask("GET", name).replace(LABEL, text), "KEEPTTL"), "+OK")


class AtEtcd(Foreign, Case):
    service = EtcdServer

    def spoil(self, key, text):
        (name, one), = self.server.keys("shop/%s/" % key).items()
        value = base64.b64decode(one["value"]).replace(LABEL.encode(), text.encode())
        self.server.ask("kv/put", key=encode(name), value=base64.b64encode(value).decode(), lease=one["lease"])


class AtZooKeeper(Foreign, Case):
    service = ZooServer

    def spoil(self, key, text):
        subprocess.run(["/usr/bin/python3", "-c", CHANGE_NODE, "127.0.0.1:%d" % self.server.port, "/shop/" + key, text],
                       timeout=LIMIT, check=True)


if __name__ == "__main__":
    unittest.main()
