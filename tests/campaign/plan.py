"""What a seed means: the plan of a round. Pure: the same seed gives the same plan for ever, or the ledger's seeds could
not be run again; so a change of this file changes the name of the plans."""
import random

NAME = "2"

WORKERS = ("worker-stop", "worker-kill")
NETWORK = ("delay", "cut", "cut-reply", "hold-requests", "hold-replies", "late", "refuse", "trickle")
MEMBERS = ("leader-stop", "follower-stop", "leader-kill", "follower-kill", "leader-cut", "follower-cut", "leader-deaf",
           "follower-deaf", "leader-mute", "follower-mute", "clients-cut")
KINDS = {
    "file": WORKERS,
    "redis": WORKERS + NETWORK + ("server-stop", "server-kill", "memory-full"),
    "redis-clock": WORKERS + NETWORK + ("server-kill", "clock-step", "clock-step", "clock-step", "clock-slew", "clock-slew"),
    # Redis forgets at a failover which slots were on their way, so those of one round have no failover.
    "cluster-masters": WORKERS + NETWORK + ("master-stop", "master-kill", "failover", "takeover"),
    "cluster-slots": WORKERS + NETWORK + ("slot-half", "slot-half", "slot-move"),
    "zookeeper": WORKERS + NETWORK + ("server-stop", "server-kill"),
    "ensemble": WORKERS + NETWORK + MEMBERS,
    "etcd": WORKERS + NETWORK + ("server-stop", "server-kill", "no-room", "compact"),
    "etcd-ensemble": WORKERS + NETWORK + MEMBERS + ("no-room", "compact"),
}
# What these may break is told in the documents; see round.py.
EXCEPTIONS = {"file": (), "redis": ("flushall", "restart-empty"), "cluster-masters": (), "cluster-slots": (),
              "redis-clock": (), "zookeeper": ("restart-empty",), "ensemble": (), "etcd": ("restart-empty",), "etcd-ensemble": ()}
SETUPS = {"file": ("file",), "redis": ("redis",), "redis-clock": ("redis-clock",), "redis-cluster": ("cluster-masters", "cluster-slots"),
          "zookeeper": ("zookeeper", "ensemble", "ensemble"), "etcd": ("etcd", "etcd-ensemble", "etcd-ensemble")}
# What needs networks that are cut; and whose clients may be told of one server alone.
NEED_NETWORKS = ("ensemble", "etcd-ensemble")
PINNED = ("zookeeper", "etcd")
# What a key is, by the letters of worker.c: taken alone, by readers and writers, or with permits.
KEYS = "arp"
AT_ONCE = ("worker-kill", "cut", "flushall", "failover", "takeover", "slot-move", "compact", "clock-step")


def fault(rng, kind, seconds):
    return {"kind": kind, "at": round(rng.uniform(0.2, seconds - 0.3), 3), "target": rng.randrange(1000),
            "for": 0 if kind in AT_ONCE else round(rng.choice((rng.uniform(0.05, 0.5), rng.uniform(0.5, 3.0))), 3),
            "size": round(rng.uniform(0.005, 0.3), 3)}


def make(driver, seed, setups=None, kinds=None):
    rng = random.Random("%s/%s/%d" % (NAME, driver, seed))
    setup = rng.choice([s for s in SETUPS[driver] if setups is None or s in setups])
    seconds = round(rng.uniform(2.5, 4.0), 1)
    faults = [fault(rng, rng.choice(kinds or KINDS[setup]), seconds) for _ in range(rng.choice((1, 2, 3, 4, 6, 8)))]
    if EXCEPTIONS[setup] and not kinds and rng.random() < 0.08:
        faults.append(fault(rng, rng.choice(EXCEPTIONS[setup]), seconds))
    processes = [{"threads": rng.choice((1, 2, 3)), "pinned": rng.randrange(3) if rng.random() < 0.3 else None}
                 for _ in range(rng.choice((3, 4, 5)))]
    return {"driver": driver, "setup": setup, "seed": seed, "seconds": seconds,
            "kinds": "".join(rng.choice(KEYS) for _ in range(rng.choice((1, 2, 3)))),
            "breaks": rng.random() < 0.4, "processes": processes, "faults": sorted(faults, key=lambda f: f["at"])}
