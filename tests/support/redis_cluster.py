"""A Redis Cluster of three masters and three replicas for what is written in Python, as testing/servers/cluster.c has it for what
is written in C."""
import os
import time

from servers import NoService, RedisServer, free_port

MASTERS, NODES, SLOTS = 3, 6, 16384
PATIENCE_S = 60


def slot_of(key):
    """Redis' CRC16 of what is in the first braces, if that is something."""
    name, start = key.encode(), key.find("{")
    end = key.find("}", start + 1) if start >= 0 else -1
    if end > start + 1:
        name = key[start + 1:end].encode()
    crc = 0
    for byte in name:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc % SLOTS


class ClusterNode(RedisServer):
    """One. Clients are told another port than its own, where there is one."""

    def __init__(self, directory, log, timeout_ms):
        super().__init__(directory, log)
        self.timeout_ms, self.bus, self.announced = timeout_ms, free_port(), 0
        self.id = ""

    def command(self):
        words = super().command() + ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port",
                                     str(self.bus), "--cluster-node-timeout", str(self.timeout_ms), "--repl-diskless-sync-delay", "0",
                                     "--cluster-allow-replica-migration", "no"]
        return words + (["--cluster-announce-port", str(self.announced)] if self.announced else [])

    def runs(self):
        return self.process is not None and not self.frozen and self.process.poll() is None

    def nodes(self):
        """What it says of each node, by its id: (flags, master, whether it serves something)."""
        lines = [line.split() for line in self.ask("CLUSTER", "NODES").splitlines()]
        return {line[0]: (line[2].split(","), line[3], [word for word in line[8:] if word[0] != "["]) for line in lines}

    def is_master(self):
        return "role:master" in self.ask("INFO", "replication")


class RedisCluster:
    def __init__(self, directory, timeout_ms=1500):
        self.nodes = [ClusterNode(os.path.join(directory, str(i)), os.path.join(directory, "node-%d.log" % i), timeout_ms)
                      for i in range(NODES)]

    def form(self):
        """Of nodes that serve, and have never met."""
        for i, node in enumerate(self.nodes):
            node.id = node.ask("CLUSTER", "MYID")
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(i + 1))
            if i < MASTERS:
                node.ask("CLUSTER", "ADDSLOTSRANGE", str(i * SLOTS // MASTERS), str((i + 1) * SLOTS // MASTERS - 1))
            for other in self.nodes[:i]:
                node.ask("CLUSTER", "MEET", other.host, str(other.port), str(other.bus))
        self.until(lambda: all(len(node.nodes()) == NODES and not any("handshake" in one[0] for one in node.nodes().values())
                               for node in self.nodes), "the nodes do not get to know each other")
        for i in range(MASTERS):
            self.nodes[i + MASTERS].ask("CLUSTER", "REPLICATE", self.nodes[i].id)
        self.await_well()

    @staticmethod
    def until(is_so, what):
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                if is_so():
                    return
            except (OSError, IndexError, ValueError, KeyError):
                pass  # one of them does not serve yet
            if time.monotonic() > end:
                raise NoService(what)
            time.sleep(0.02)  # nothing tells

    def is_well(self):
        """All run, agree, serve all slots, and follow their masters."""
        views = []
        for node in self.nodes:
            if "cluster_state:ok" not in node.ask("CLUSTER", "INFO"):
                return False
            info, view = node.ask("INFO", "replication"), node.nodes()
            if "role:slave" in info and "master_link_status:up" not in info:
                return False
            if any({"fail", "fail?", "handshake", "noaddr"} & set(one[0]) for one in view.values()):
                return False
            views.append({name: ("master" in one[0], one[2]) for name, one in view.items()})
        return all(view == views[0] for view in views)

    def await_well(self):
        self.until(self.is_well, "the cluster does not come to terms")

    def roles(self):
        """Which nodes are masters, by the word of the first that says so; those that run no more say nothing."""
        for node in self.nodes:
            try:
                if node.runs():
                    return frozenset(name for name, one in node.nodes().items() if "master" in one[0] and one[2])
            except (OSError, IndexError, ValueError):
                pass
        return frozenset()

    def masters(self):
        found = []
        for node in self.nodes:
            try:
                if node.runs() and node.is_master() and any("myself" in one[0] and one[2] for one in node.nodes().values()):
                    found.append(node)
            except (OSError, IndexError, ValueError):
                pass
        return found

    def replica_of(self, master):
        for node in self.nodes:
            try:
                if node.runs() and any("myself" in one[0] and one[1] == master.id for one in node.nodes().values()):
                    return node
            except (OSError, IndexError, ValueError):
                pass
        return None

    def owner(self, slot):
        """None: nobody can be asked."""
        for node in self.masters():
            for flags, _, ranges in node.nodes().values():
                ends = [[int(end) for end in one.split("-")] for one in ranges] if "myself" in flags else []
                if any(one[0] <= slot <= one[-1] for one in ends):
                    return node
        return None

    @staticmethod
    def begin_move(slot, source, target):
        target.ask("CLUSTER", "SETSLOT", str(slot), "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", str(slot), "MIGRATING", target.id)

    @staticmethod
    def move_keys(slot, source, target, wanted=lambda key: True):
        """Those that are wanted. The error of one that can't be moved, or None."""
        keys = source.ask("CLUSTER", "GETKEYSINSLOT", str(slot), "1000")
        if isinstance(keys, str):
            return keys
        for key in keys:
            answer = source.ask("MIGRATE", target.host, str(target.port), key, "0", "5000") if wanted(key) else "+OK"
            if answer not in ("+OK", "+NOKEY"):
                return answer
        return None

    def end_move(self, slot, source, target):
        """The error that keeps it from ending, or None."""
        while True:
            error = self.move_keys(slot, source, target)
            if error:
                return error
            if not source.ask("CLUSTER", "GETKEYSINSLOT", str(slot), "1"):
                break
        for node in [target, source] + [node for node in self.masters() if node not in (source, target)]:
            answer = node.ask("CLUSTER", "SETSLOT", str(slot), "NODE", target.id)
            if answer != "+OK":
                return answer
        return None
