"""A client of kazoo's, spoken to line by line: kazoo_lock.py HOSTS subclass|parameter.

It waits for nodes of Curator's naming in either of two ways: by a subclass that makes such nodes too, or by a parameter
of kazoo's own Lock, whose nodes keep kazoo's naming.

  lock PATH SECONDS      "ok", or "busy" when it was not granted in that time
  wait PATH              "ok" at the grant
  release                "ok"
  grants PATH FILE N     "ok", after N locks of PATH, each noted in FILE by the number of its node's creation
"""
import logging
import sys

try:
    import kazoo.client
    import kazoo.exceptions
    import kazoo.recipe.lock
except ImportError:
    sys.exit("kazoo is missing: install python3-kazoo")


def Parameter(client, path, name):
    return kazoo.recipe.lock.Lock(client, path, name, extra_lock_patterns=["-lock-"])


class Subclass(kazoo.recipe.lock.Lock):
    """Named so that Curator, go-zookeeper and liblocker wait for it, and that it waits for them."""
    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


def acquired(make, client, path):
    """The server deletes an empty container once a minute: between kazoo's look at the path and its create, too."""
    while True:
        lock = make(client, path, "kazoo")
        try:
            lock.acquire()
            return lock
        except kazoo.exceptions.NoNodeError:
            continue


def grants(make, client, path, name, times):
    for _ in range(times):
        lock = acquired(make, client, path)
        stat = client.exists(path + "/" + lock.node)
        with open(name, "a", encoding="ascii") as log:
            log.write("%d kazoo\n" % stat.czxid)
        lock.release()


def main():
    logging.basicConfig(level=logging.ERROR)
    make = {"subclass": Subclass, "parameter": Parameter}[sys.argv[2]]
    client = kazoo.client.KazooClient(hosts=sys.argv[1], timeout=20)
    client.start()
    print("open", flush=True)
    lock = None
    for line in sys.stdin:
        words = line.split()
        answer = "ok"
        if words[0] == "lock":
            lock = make(client, words[1], "kazoo")
            try:
                lock.acquire(timeout=float(words[2]))
            except kazoo.exceptions.LockTimeout:
                answer = "busy"
        elif words[0] == "wait":
            lock = acquired(make, client, words[1])
        elif words[0] == "release":
            lock.release()
        elif words[0] == "grants":
            grants(make, client, words[1], words[2], int(words[3]))
        else:
            answer = "what is %r" % line
        print(answer, flush=True)
    client.stop()


main()
