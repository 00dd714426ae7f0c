"""Lock clients with a fault that can be switched on, for test_planted.py. They speak to real servers, and write the
history of what they believed. A fault is something that real clients do, or did:

  delete   unlock deletes the key without comparing its value
  receive  the deadline is counted from when the reply came, not from when the request was sent
  xx       renewal is SET XX, which also overwrites another's lock
  ping     the deadline moves with every sign of life of the connection, which proves nothing about the lock
  nameless the node's name has no uuid, so a create whose reply was lost can't be found again

The clients of a test are connections of its own process, stepped by the test in a fixed order; nothing is left to
chance. In the history each is a process by itself.
"""
import asyncio
import json
import os
import select
import socket
import struct
import threading
import time
import uuid

from proxy import Proxy

LIMIT = 30.0
COMPARE_AND_DELETE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
COMPARE_AND_EXPIRE = ("if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) "
                      "end return 0")


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def until(what, holds):
    """Ask again and again, for a limited time."""
    end = time.monotonic() + LIMIT
    while not holds():
        if time.monotonic() > end:
            raise AssertionError("it never happened: " + what)
        select.select([], [], [], 0.005)


class History:
    """One file; a line is one write."""

    def __init__(self, path, backend):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.common = dict(backend=backend, key="k")

    def write(self, process, op, phase, **fields):
        line = dict(t=now(), process=process, op=op, phase=phase, **self.common, **fields)
        os.write(self.fd, (json.dumps(line) + "\n").encode())

    def close(self):
        os.close(self.fd)


class Client:
    """What a holder believes, and writes down."""

    def __init__(self, history, process, fault=None):
        self.history, self.process, self.fault = history, process, fault
        self.handle = 0
        self.deadline = 0

    def note(self, op, phase, **fields):
        self.history.write(self.process, op, phase, handle=self.handle, **fields)

    def ask(self, op="lock"):
        self.handle += 1
        self.note(op, "invoke")

    def extend(self, sent, ttl_ns):
        self.deadline = (now() if self.fault == "receive" else sent) + ttl_ns
        return self.deadline

    def end(self):
        self.history.write(self.process, "end", "info")


class RedisClient(Client):
    """SET NX PX, and scripts that compare."""

    def __init__(self, history, process, redis, fault=None, ttl_ms=30000):
        super().__init__(history, process, fault)
        self.ttl_ms = ttl_ms
        self.value = ""
        self.socket = socket.create_connection(("127.0.0.1", redis.port), LIMIT)
        self.stream = self.socket.makefile("rb")

    def send(self, *words):
        self.socket.sendall(("*%d\r\n" % len(words) + "".join("$%d\r\n%s\r\n" % (len(w), w) for w in words)).encode())

    def reply(self):
        """The reply's text; None for a nil."""
        line = self.stream.readline().decode().rstrip("\r\n")
        if line == "$-1":
            return None
        if line.startswith("$"):
            return self.stream.read(int(line[1:]) + 2)[:-2].decode()
        if line.startswith("-") or not line:
            raise AssertionError("the server answered %r" % line)
        return line[1:]

    def call(self, *words):
        self.send(*words)
        return self.reply()

    def attempt(self, meanwhile=lambda: None):
        """One SET; the test may do something between the request and the reading of its reply."""
        self.value = uuid.uuid4().hex
        sent = now()
        self.send("SET", "k", self.value, "NX", "PX", str(self.ttl_ms))
        meanwhile()
        if self.reply() is None:
            return False
        self.extend(sent, self.ttl_ms * 1000000)
        return True

    def granted(self, op):
        self.note(op, "ok", id=self.value, valid_until=self.deadline, ttl=self.ttl_ms * 1000000)

    def lock(self, meanwhile=lambda: None):
        self.ask()
        until("process %d gets the lock" % self.process, lambda: self.attempt(meanwhile))
        self.granted("lock")

    def try_lock(self):
        self.ask("try")
        if self.attempt():
            self.granted("try")
            return True
        self.note("try", "fail", outcome="busy")
        return False

    def confirmed(self):
        if self.fault == "xx":
            return self.call("SET", "k", self.value, "XX", "PX", str(self.ttl_ms)) == "OK"
        if self.fault == "ping":
            return self.call("PING") == "PONG"
        return self.call("EVAL", COMPARE_AND_EXPIRE, "1", "k", self.value, str(self.ttl_ms)) == "1"

    def renew(self):
        sent = now()
        if self.confirmed():
            self.note("lease", "info", valid_until=self.extend(sent, self.ttl_ms * 1000000))
            return True
        self.note("lost", "info", valid_until=self.deadline)
        return False

    def unlock(self):
        self.note("unlock", "invoke", valid_until=self.deadline)
        if self.fault == "delete":
            removed = self.call("DEL", "k") == "1"
        else:
            removed = self.call("EVAL", COMPARE_AND_DELETE, "1", "k", self.value) == "1"
        self.note("unlock", "ok" if removed else "fail")
        return removed

    def look(self):
        """What the server says, as somebody who only looks on."""
        sent = now()
        value = self.call("GET", "k")
        self.history.write(99, "server", "info", sent=sent, held=value is not None, **({"id": value} if value else {}))

    def close(self):
        self.stream.close()
        self.socket.close()


class ZooClient(Client):
    """Sequential nodes, numbered by the server; the first has the lock."""
    PATH = "/k"
    SESSION_S = 20
    VALID_NS = SESSION_S * 750000000

    def __init__(self, history, process, client, fault=None):
        super().__init__(history, process, fault)
        self.client = client
        self.node = ""

    def children(self):
        return sorted(self.client.retry(self.client.get_children, self.PATH), key=lambda name: name[-10:])

    def create(self, lost_reply):
        """Enter the queue, over a connection that may break before the reply. kazoo says so by `lost_reply`."""
        prefix = "_c_%s-lock-" % ("" if self.fault == "nameless" else uuid.uuid4())
        try:
            path = self.client.create(self.PATH + "/" + prefix, ephemeral=True, sequence=True)
        except lost_reply:
            found = [name for name in self.children() if name.startswith(prefix)]
            if found and self.fault != "nameless":
                return found[0]
            path = self.client.retry(self.client.create, self.PATH + "/" + prefix, ephemeral=True, sequence=True)
        return path.rpartition("/")[2]

    def lock(self, lost_reply=(), turns=None):
        """False: it was not first in so many looks."""
        self.ask()
        sent = now()
        self.node = self.create(lost_reply)
        left = [turns]

        def over():
            if self.children()[0] == self.node:
                return True
            if left[0] is not None:
                left[0] -= 1
            return left[0] == 0
        until("process %d gets the lock" % self.process, over)
        if self.children()[0] != self.node:
            self.client.retry(self.client.delete, self.PATH + "/" + self.node)
            self.note("lock", "fail", outcome="timeout")
            return False
        stat = self.client.retry(self.client.exists, self.PATH + "/" + self.node)
        self.extend(sent, self.VALID_NS)
        self.note("lock", "ok", id=self.node, token=stat.czxid, valid_until=self.deadline,
                  ttl=self.SESSION_S * 1000000000)
        return True

    def renew(self):
        """A sign of life: of the session, or of the own node."""
        sent = now()
        if self.fault == "ping":
            self.client.retry(self.client.exists, "/")
        elif not self.client.retry(self.client.exists, self.PATH + "/" + self.node):
            self.note("lost", "info", valid_until=self.deadline)
            return False
        self.note("lease", "info", valid_until=self.extend(sent, self.VALID_NS))
        return True

    def unlock(self, no_node):
        self.note("unlock", "invoke", valid_until=self.deadline)
        try:
            self.client.delete(self.PATH + "/" + self.node)
        except no_node:
            self.note("unlock", "fail", outcome="lost")
            return
        self.note("unlock", "ok")

    def look(self):
        sent = now()
        names = self.children()
        if not names:
            self.history.write(99, "server", "info", sent=sent, held=False, waiters=0)
            return
        stat = self.client.retry(self.client.exists, self.PATH + "/" + names[0])
        self.history.write(99, "server", "info", sent=sent, held=True, id=names[0], token=stat.czxid,
                           waiters=len(names) - 1)


class LosingProxy(Proxy):
    """Between a client and ZooKeeper: swallows the reply to the first create of a lock's node, which the server has
    carried out, and breaks the connection."""

    def __init__(self, port):
        self.lost = threading.Event()
        self.wanted = None  # the number of that request
        super().__init__("127.0.0.1", port)

    async def pump(self, reader, writer, way, ends):
        while True:
            try:
                length = await reader.readexactly(4)
                record = await reader.readexactly(struct.unpack(">i", length)[0])
            except asyncio.IncompleteReadError:
                raise ConnectionError from None  # ends the other way too
            if way == "up" and not self.lost.is_set() and record[4:8] == b"\0\0\0\1" and b"-lock-" in record:
                self.wanted = record[:4]
            elif way == "down" and record[:4] == self.wanted and not self.lost.is_set():
                self.lost.set()
                raise ConnectionError
            writer.write(length + record)
            await writer.drain()
