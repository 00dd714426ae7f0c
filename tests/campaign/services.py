"""The services of a campaign: a Redis server, a Redis Cluster, one server of ZooKeeper or etcd or an ensemble of three in network
namespaces, or a directory. Each lane of a campaign has its own, for all of its rounds; a round has a namespace of its own there."""
import ctypes
import mmap
import os
import shutil
import subprocess
import sys
import threading
import time

from proxy import Proxy

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from redis_cluster import RedisCluster, slot_of  # noqa: E402
from servers import EtcdServer, NoService, RedisServer, ZooServer, die_with_us  # noqa: E402

SLEW, SLEW_EACH_S = 0.083, 0.01  # of a clock, as fast as chrony does
CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def enter_a_network_of_our_own():
    """Why it can't be had, or None. For the calling thread and what it starts: call it first."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "iptables", "nsenter", "unshare"):
        if not shutil.which(program):
            return "%s is missing: install iproute2, iptables and util-linux" % program
    if libc.unshare(CLONE_NEWNET) != 0:
        return "the kernel gives no network namespace: " + os.strerror(ctypes.get_errno())
    return None if run("ip link set lo up") else "ip can't set up a network namespace"


def run(line, place=None):
    """A command, in a namespace that is named by a process in it."""
    words = (["nsenter", "-t", str(place), "-n"] if place else []) + line.split()
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False)
    return done.returncode == 0


class Service:
    """What a lane has: servers, a proxy before each, and what is to be known of it."""
    proxies, servers = (), ()
    ttl_s, bound_s = 0.0, 3.0

    def start_all(self):
        """All or none: who can't have it may try again."""
        try:
            for server in self.servers:
                server.start()
            for server in self.servers:
                server.await_service()
        except NoService:
            self.close()
            raise

    def begin(self):
        self.start_all()
        self.proxies = [Proxy(server.host, server.port) for server in self.servers]

    def heal_network(self):
        for proxy in self.proxies:
            proxy.heal()

    def heal(self):
        self.heal_network()
        for server in self.servers:
            server.heal()
        for server in self.servers:
            server.await_service()

    def left_behind(self, _space):
        return []

    def close(self):
        for server in self.servers:
            server.kill()


class Redis(Service):
    ttl_s, bound_s = 1.5, 5.5

    def __init__(self, directory):
        self.servers = [RedisServer(os.path.join(directory, "redis"), os.path.join(directory, "redis.log"))]
        self.begin()

    def uri(self, space, proxies):
        port = self.proxies[0].port if proxies else self.servers[0].port
        return "redis://127.0.0.1:%d/0?namespace=%s&ttl=1500ms&command_timeout=1s&connect_timeout=1s" % (port, space)

    def heal(self):
        super().heal()
        self.servers[0].ask("CONFIG", "SET", "maxmemory", "0")

    def left_behind(self, space):
        """Keys that would stay for ever, but for the counters of fencing tokens, which do: one for each hash slot."""
        keys = self.servers[0].ask("KEYS", "*%s*" % space)
        return [key for key in keys if not key.startswith(space + ":locker:fence:{")
                and self.servers[0].ask("PTTL", key) == ":-1"]


class ClockedRedis(Redis):
    """The server's wall clock steps forward, and slews: by `gained_us` in all."""

    def __init__(self, directory, shim):
        self.gained_us, self.lock, self.slews = 0, threading.Lock(), []
        page = os.path.join(directory, "clock")
        with open(page, "wb+") as file:
            file.truncate(mmap.PAGESIZE)
            self.page = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.lead_us = ctypes.c_int64.from_buffer(self.page, 8)  # written at once: struct.pack_into() makes it 0 before
        self.environment = dict(os.environ, LD_PRELOAD=shim, LOCKER_CLOCK_PAGE=page)
        super().__init__(directory)

    def start_all(self):
        for server in self.servers:
            server.environment = self.environment
        super().start_all()

    def gain(self, seconds):
        with self.lock:
            self.gained_us += int(1e6 * seconds)
            self.lead_us.value = self.gained_us

    def slew(self):
        """Until what is returned is called, or all is healed."""
        ends = threading.Event()

        def go_on():
            before = time.monotonic()
            while not ends.wait(SLEW_EACH_S):
                now = time.monotonic()
                self.gain(SLEW * (now - before))
                before = now
        thread = threading.Thread(target=go_on, daemon=True)
        thread.start()
        self.slews.append((ends, thread))
        return ends.set

    def heal(self):
        for ends, thread in self.slews:
            ends.set()
            thread.join()
        self.slews.clear()
        super().heal()


class Cluster(Service):
    """Clients are told the proxies' ports, and so are replicas: what harms the one harms the others. A slot is on its way as long
    as a fault says; two moves of one slot are one."""
    ttl_s, bound_s = 2.0, 8.0

    def __init__(self, directory):
        self.cluster = RedisCluster(directory)
        self.servers = self.cluster.nodes
        self.moves, self.errors = {}, []
        self.begin()
        self.cluster.form()

    def begin(self):
        self.proxies = [Proxy(server.host, server.port) for server in self.servers]
        for server, proxy in zip(self.servers, self.proxies):
            server.announced = proxy.port
        self.start_all()

    def uri(self, space, _proxies):
        ends = ",".join("127.0.0.1:%d" % proxy.port for proxy in self.proxies)
        return "redis+cluster://%s/?namespace=%s&ttl=2s&command_timeout=1s&connect_timeout=1s" % (ends, space)

    def begin_move(self, key, number):
        """Of the key's slot to another master, with some of its keys."""
        slot = slot_of(key)
        source = self.cluster.owner(slot)
        targets = [node for node in self.cluster.masters() if node is not source]
        if slot in self.moves or source is None or not targets:
            return
        target = targets[number % len(targets)]
        self.moves[slot] = (source, target)
        self.cluster.begin_move(slot, source, target)
        self.note(self.cluster.move_keys(slot, source, target, lambda name: (hash_of(name) + number) % 2))

    def end_moves(self):
        for slot, (source, target) in list(self.moves.items()):
            self.note(self.cluster.end_move(slot, source, target))
            del self.moves[slot]

    def note(self, error):
        if error:
            self.errors.append("a slot can't be moved: " + error)

    def heal(self):
        super().heal()
        self.cluster.await_well()
        self.end_moves()
        self.cluster.await_well()

    def left_behind(self, space):
        """As of one server; and what kept a slot from moving."""
        errors, self.errors = self.errors, []
        left = [key for master in self.cluster.masters() for key in master.ask("KEYS", "*%s*" % space)
                if not key.startswith(space + ":locker:fence:{") and master.ask("PTTL", key) == ":-1"]
        return errors + left


def hash_of(name):
    """The same in each run."""
    return sum(name.encode())


class ZooKeeper(Service):
    ttl_s, bound_s = 2.0, 7.5
    scheme, kind = "zookeeper", ZooServer
    settings = "ttl=2s&command_timeout=1500ms&connect_timeout=2s"

    def __init__(self, directory):
        self.servers = [self.kind(os.path.join(directory, "one"), os.path.join(directory, "one.log"))]
        self.begin()

    def uri(self, space, proxies, pinned=None):
        ends = [("127.0.0.1", proxy.port) for proxy in self.proxies] if proxies else \
            [(server.host, server.port) for server in self.servers]
        if pinned is not None:
            ends = [ends[pinned % len(ends)]]
        return "%s://%s/?namespace=%s&%s" % (self.scheme, ",".join("%s:%d" % end for end in ends), space, self.settings)

    def leader(self):
        for i, server in enumerate(self.servers):
            if server.role() == "leader":
                return i
        return 0


class Ensemble(ZooKeeper):
    """Each member in a namespace of its own, at a bridge in ours."""
    net, hub = 201, "10.201.0.254"

    def __init__(self, directory):
        self.places = []
        run("ip link add bridge%d type bridge" % self.net)
        run("ip address add %s/24 dev bridge%d" % (self.hub, self.net))
        run("ip link set bridge%d up" % self.net)
        for number in (1, 2, 3):
            self.join(number)
        self.servers = [self.kind(os.path.join(directory, str(number)), os.path.join(directory, "%d.log" % number),
                                  number, self.places[number - 1].pid) for number in (1, 2, 3)]
        self.begin()

    def join(self, number):
        place = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 preexec_fn=die_with_us)
        place.stdin.write(b"\n")
        place.stdin.flush()
        place.stdout.readline()  # unshare has become cat
        self.places.append(place)
        good = (run("ip link add m%d-%d type veth peer name eth0 netns %d" % (self.net, number, place.pid)) and
                run("ip link set m%d-%d master bridge%d up" % (self.net, number, self.net)) and
                run("ip address add 10.%d.0.%d/24 dev eth0" % (self.net, number), place.pid) and
                run("ip link set eth0 up", place.pid) and run("ip link set lo up", place.pid))
        if not good:
            self.close()
            raise NoService("a member's network can't be set up")

    def cut(self, member, others, ways=("INPUT", "OUTPUT")):
        """Drop what comes from these addresses (INPUT), or goes there (OUTPUT)."""
        for other in others:
            for way in ways:
                run("iptables -A %s %s %s -j DROP" % (way, "-s" if way == "INPUT" else "-d", other),
                    self.places[member].pid)

    def peers(self, member):
        return [server.host for i, server in enumerate(self.servers) if i != member]

    def heal_network(self):
        super().heal_network()
        for place in self.places:
            run("iptables -F", place.pid)

    def close(self):
        super().close()
        for number, place in enumerate(self.places, 1):
            run("ip link delete m%d-%d" % (self.net, number))  # at once; the kernel takes its time with an ended namespace
            place.kill()
            place.wait()


class OfEtcd:
    """What is done to etcd alone, one or three."""
    scheme, kind = "etcd", EtcdServer

    def alarm(self, action):
        """Of the first that answers: all of them are told."""
        self.ask("maintenance/alarm", action=action, memberID="0", alarm="NOSPACE")

    def compact(self):
        self.ask("kv/compaction", revision=self.ask("maintenance/status")["header"]["revision"])

    def ask(self, path, **question):
        for server in self.servers[1:]:
            try:
                return server.ask(path, **question)
            except OSError:
                pass
        return self.servers[0].ask(path, **question)

    def heal(self):
        super().heal()
        self.alarm("DEACTIVATE")

    def left_behind(self, space):
        """Keys that would stay for ever."""
        return [name for name, told in self.servers[0].keys(space + "/").items()
                if "lease" not in told]


class Etcd(OfEtcd, ZooKeeper):
    pass


class EtcdEnsemble(OfEtcd, Ensemble):
    net, hub = 202, "10.202.0.254"


class File(Service):
    bound_s = 3.0

    def __init__(self, directory):
        self.directory = directory

    def uri(self, space, proxies):
        return "file://%s/%s" % (self.directory, space)


def make(setup, directory, build):
    os.makedirs(directory, exist_ok=True)
    if setup == "redis-clock":
        return ClockedRedis(directory, os.path.join(build, "simulation/tests/simulation_clock.so"))
    return {"redis": Redis, "cluster-masters": Cluster, "cluster-slots": Cluster, "zookeeper": ZooKeeper, "ensemble": Ensemble, "etcd": Etcd,
            "etcd-ensemble": EtcdEnsemble, "file": File}[setup](directory)
