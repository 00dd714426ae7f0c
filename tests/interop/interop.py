"""Contenders of every kind for one lock on one etcd: we in a program that keeps its locker, we by `locker run`, `etcdctl lock`, and
Go's concurrency.Mutex. Under it each adds one to a number in a file that nothing else guards, and notes its key's create revision
and the number that it read. No increment may be lost, and the revisions have to grow with the numbers: who queued first was first."""
import argparse
import collections
import os
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD", os.path.join(TOP, "build"))
ADD = os.path.join(TOP, "tests/interop/add.sh")
LOOP = 'left=$1; shift; while [ "$left" -gt 0 ]; do timeout 60 "$@" || exit; left=$((left - 1)); done'
LIMIT_S, PAUSE_MS = 1800, 10

sys.path.insert(0, os.path.join(TOP, "tests", "support"))
from servers import EtcdServer, die_with_us  # noqa: E402


def contenders(server, directory, options):
    """Those that keep a session are quicker than those that start two processes for each lock, so they pause."""
    def loop(kind, *lock):
        return ["sh", "-c", LOOP, kind, times, *lock, ADD, kind, directory]

    times, pause = str(options.times), str(PAUSE_MS)
    theirs = "elsewhere" if options.apart else "shop/shared"
    return {"ours": [BUILD + "/tests/interop/locker_interop", server.uri, "shared", directory, times, pause],
            "run": loop("run", BUILD + "/tools/locker", "run", "--uri", server.uri, "shared", "--"),
            "etcdctl": loop("etcdctl", "etcdctl", "lock", "--", theirs),
            "go": [BUILD + "/lab/bench/go/mutex", "%s:%d" % (server.host, server.port), "add", "shop/shared", directory, times, pause]}


def contend(server, directory, options):
    """All at once; the seconds that it took."""
    with open(directory + "/counter", "w") as counter:
        counter.write("%6d\n" % 0)
    env = dict(os.environ, ETCDCTL_API="3", ETCDCTL_ENDPOINTS="%s:%d" % (server.host, server.port))
    begin = time.monotonic()
    running = {kind: subprocess.Popen(command, env=env, preexec_fn=die_with_us)
               for kind, command in contenders(server, directory, options).items()}
    ends = {kind: process.wait(max(1, begin + LIMIT_S - time.monotonic())) for kind, process in running.items()}
    return time.monotonic() - begin, ["%s ended with status %d" % end for end in ends.items() if end[1] != 0]


def judge(directory, options):
    """What is wrong, and what happened."""
    with open(directory + "/counter") as file:
        counter = int(file.read())
    with open(directory + "/grants") as file:
        grants = sorted((int(number), int(revision), kind) for revision, number, kind in map(str.split, file))
    pairs = list(zip(grants, grants[1:]))
    wanted, by_kind = 4 * options.times, collections.Counter(kind for _, _, kind in grants)
    lost = wanted - len({number for number, _, _ in grants})
    late = sum(a[1] >= b[1] for a, b in pairs)
    wrong = ["the counter is %d, not %d" % (counter, wanted)] if counter != wanted else []
    wrong += ["%d numbers were read by nobody or twice" % lost] if lost else []
    wrong += ["%d grants came after one that had queued behind them" % late] if late else []
    wrong += ["%s had %d grants" % had for had in by_kind.items() if had[1] != options.times]
    ends = sorted((max(number for number, _, kind in grants if kind == of) + 1, of) for of in by_kind)
    told = ["the counter is %d, by %s" % (counter, ", ".join("%d %s" % (n, kind) for kind, n in sorted(by_kind.items())))]
    told += ["%d of %d grants followed one of another kind" % (sum(a[2] != b[2] for a, b in pairs), len(pairs))]
    told += ["%s was done first, at %d" % (kind, at) for at, kind in ends[:1]]
    return wrong, "; ".join(told)


def main():
    parser = argparse.ArgumentParser(prog="script/interop", description=__doc__.split(":")[0])
    parser.add_argument("--times", type=int, default=1000, help="increments by each of the four (1000)")
    parser.add_argument("--apart", action="store_true", help="etcdctl locks something else: this has to fail")
    options = parser.parse_args()
    server = EtcdServer()
    with tempfile.TemporaryDirectory(prefix="locker-interop-") as directory:
        try:
            server.begin()
            version = server.get("/version")["etcdserver"]
            took, failed = contend(server, directory, options)
            wrong, told = judge(directory, options)
        finally:
            server.remove()
    print("etcd %s, %.0f s: %s" % (version, took, told))
    for complaint in failed + wrong:
        print("WRONG: " + complaint)
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
