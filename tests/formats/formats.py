"""What other versions and other programs rely on, held against a record: the bytes of a lock at each service, the lines of --status-fd,
the JSON of show, ping, break and drivers, and the exit codes of `locker run`.

  formats.py SERVICE            compare with SERVICE.txt; LOCKER_BIN is the command
  formats.py SERVICE --record   write SERVICE.txt anew, after a change that was meant

What differs from run to run, such as a token or a time, is replaced by a word of its kind and its number of digits.
"""
import contextlib
import difflib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "support"))
from servers import EtcdServer, RedisServer, ZooServer  # noqa: E402

LOCKER = os.environ["LOCKER_BIN"]
LIMIT = 60
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if name == "LOCKER_TEST_REDIS_SERVER" or not name.startswith(("LOCKER_", "XDG_"))}


class Run:
    """`locker run` whose command ends when this is told to."""

    def __init__(self, uri, key, *options):
        told, tell = os.pipe()
        self.process = subprocess.Popen(
            [LOCKER, "run", "-u", uri, "-t", "60s", "--status-fd", str(tell), *options, key, "--", "cat"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[tell], env=ENVIRONMENT)
        os.close(tell)
        self.status = os.fdopen(told, encoding="utf-8")
        self.lines = []

    def until(self, event):
        """Read status lines up to this event."""
        for line in self.status:
            self.lines.append(line.rstrip("\n"))
            if json.loads(line)["event"] == event:
                return
        raise AssertionError("no event %s in %s" % (event, self.lines))

    def end(self):
        self.process.stdin.close()
        self.process.wait(LIMIT)
        self.lines += self.status.read().splitlines()
        self.status.close()
        return self.process.returncode


class Record:
    def __init__(self):
        self.text = []

    def title(self, words):
        self.text += ["", "== " + words]

    def add(self, words, value):
        self.text.append(plain("%s: %s" % (words, value)))

    def lines(self, words, dump):
        """What is at the service, in an order that does not depend on random names."""
        self.text += sorted(plain("%s: %s" % (words, line)) for line in dump())

    def command(self, uri, name, *words):
        done = subprocess.run([LOCKER, name, "-u", uri, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, env=ENVIRONMENT, timeout=LIMIT, check=False, text=True)
        self.add("locker %s: exit" % " ".join((name, *words)), done.returncode)
        return done.stdout

    def json(self, uri, name, *words):
        """The names of a JSON text and what kind of value each has."""
        for line in shape("", json.loads(self.command(uri, name, *words))):
            self.add("locker %s" % name, line)


def shape(path, value):
    """Lines PATH KIND."""
    if isinstance(value, dict):
        return [line for name in sorted(value) for line in shape(path + "." + name, value[name])]
    if isinstance(value, list):
        return sorted({line for one in value for line in shape(path + "[]", one)}) or [path + "[] empty"]
    return ["%s %s" % (path, "null" if value is None else type(value).__name__)]


def plain(text):
    """With words in the place of what differs from run to run."""
    text = re.sub(r"(\.queue-)[0-9a-f]+-\d+-[0-9a-f]+", r"\1<file>", text)  # DEVICE-INODE
    text = re.sub(r"/[0-9a-f]{16}-[0-9a-f]{8}-\d{8}", "/<time>-<process>-<number>", text)  # a place in a queue
    text = re.sub(r"host  \S+ *", "host  <name>", text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>", text)
    text = re.sub(r"(?<![0-9a-f])[0-9a-f]{16,}", lambda found: "<hex %d>" % len(found.group()), text)
    text = re.sub(r"\d{6,}", lambda found: "<10 digits>" if found.group()[0] == "0" else "<number>", text)
    return re.sub(r'("token":|broken )\d+', r"\1<number>", text)


@contextlib.contextmanager
def redis():
    server = RedisServer()
    server.begin()

    def dump():
        for key in sorted(server.ask("KEYS", "*")):
            kind = server.ask("TYPE", key)[1:]
            how = {"string": ["GET", key], "hash": ["HGETALL", key], "zset": ["ZRANGE", key, "0", "-1", "WITHSCORES"],
                   "set": ["SMEMBERS", key], "list": ["LRANGE", key, "0", "-1"]}[kind]
            value = server.ask(*how)
            yield "%s %s %s %r" % (key, kind, "stays" if server.ask("PTTL", key) == ":-1" else "expires", value)

    try:
        yield "redis://127.0.0.1:%d/0?namespace=shop" % server.port, dump
    finally:
        server.remove()


@contextlib.contextmanager
def zookeeper():
    from kazoo.client import KazooClient
    server = ZooServer()
    server.begin()
    client = KazooClient("127.0.0.1:%d" % server.port)
    client.start(LIMIT)

    def below(path):
        if not path.startswith("/zookeeper"):
            data, told = client.get(path)
            kind = {0: "node", -2 ** 63: "container"}.get(told.ephemeralOwner, "ephemeral")
            yield "%s %s %r" % (path, kind, data)
            for child in sorted(client.get_children(path)):
                yield from below(path.rstrip("/") + "/" + child)

    try:
        yield server.uri, lambda: below("/")
    finally:
        client.stop()
        client.close()
        server.remove()


@contextlib.contextmanager
def etcd():
    import base64
    server = EtcdServer()
    server.begin()

    def dump():
        for name, told in sorted(server.keys("/").items()) + sorted(server.keys("shop").items()):
            value = base64.b64decode(told.get("value", ""))
            yield "%s %s %r" % (name, "on a lease" if told.get("lease") else "stays", value)

    try:
        yield server.uri, dump
    finally:
        server.remove()


@contextlib.contextmanager
def file():
    directory = tempfile.mkdtemp(prefix="locker-formats-")

    def dump():
        for folder, folders, files in os.walk(directory):
            folders.sort()
            for name in sorted(files + [name for name in folders if os.listdir(os.path.join(folder, name))]):
                path = os.path.join(folder, name)
                mode = os.lstat(path).st_mode
                value = stat.filemode(mode)[0]
                if stat.S_ISREG(mode):
                    with open(path, "rb") as stream:
                        value = repr(stream.read())
                yield "%s %o %s" % (os.path.relpath(path, directory), stat.S_IMODE(mode), value)

    try:
        yield "file://" + directory, dump
    finally:
        shutil.rmtree(directory)


SERVICES = {"redis": redis, "zookeeper": zookeeper, "etcd": etcd, "file": file}


def is_late_note(line):
    """True of what Redis' driver writes beside an exclusive lock only when there is time for it."""
    return ":locker:info string" in line


def keep(record, what, uri, dump, key, *options):
    """A holder, and one that waits behind it; what is at the service meanwhile and afterwards."""
    record.title(what)
    holder = Run(uri, key, "--owner", "holder", *options)
    holder.until("acquired")
    record.lines("held", lambda: (line for line in dump() if not is_late_note(line)))
    record.json(uri, "show", "--json", key)
    waiter = Run(uri, key, "--owner", "waiter", *(options if "-p" in options else ()))
    waiter.until("waiting")
    while '"waiters":1' not in subprocess.run([LOCKER, "show", "-u", uri, "--json", key], stdout=subprocess.PIPE, env=ENVIRONMENT,
                                              text=True, check=False).stdout.replace(" ", ""):
        pass  # its place is at the service soon
    record.lines("waited for", dump)
    for name, run in (("holder", holder), ("waiter", waiter)):
        record.add(name + ": exit", run.end())
        for line in run.lines:
            record.add(name + ": status", line)
    record.lines("free", dump)


def write(record, uri, dump):
    keep(record, "an exclusive lock", uri, dump, "job/1")
    keep(record, "a shared lock", uri, dump, "job/2", "-s")
    keep(record, "a permit", uri, dump, "job/3", "-p", "1")
    record.title("break")
    holder = Run(uri, "job/4")
    holder.until("acquired")
    record.json(uri, "break", "--json", "job/4")
    record.lines("broken", dump)
    holder.process.wait(LIMIT)
    record.add("holder: exit", holder.end())
    record.title("other")
    record.json(uri, "ping", "--json")
    record.command(uri, "break", "job/5")


def main(service, *words):
    record = Record()
    with SERVICES[service]() as (uri, dump):
        write(record, uri, dump)
    text = "\n".join(record.text).strip() + "\n"
    path = os.path.join(HERE, service + ".txt")
    if words == ("--record",):
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return 0
    with open(path, encoding="utf-8") as kept:
        old = kept.read()
    sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), "recorded", "now"))
    return 0 if old == text else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
