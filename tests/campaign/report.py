"""The ledger of campaigns, and the table that docs/data/reliability-campaigns.md has of it. A run counts for the lines that it ran: a
commit's trees of core and of the driver. A change there makes it count no more."""
import hashlib
import json
import os
import subprocess

import plan

CONCERN = {"file": "backends/file", "redis": "backends/redis", "redis-clock": "backends/redis", "redis-cluster": "backends/redis", "zookeeper": "backends/zookeeper",
           "etcd": "backends/etcd"}


def git(root, *words):
    done = subprocess.run(["git", "-C", root, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          check=False)
    return done.stdout.strip()


def commit(root):
    dirty = git(root, "status", "--porcelain", "--untracked-files=no", "--", "core", "backends")
    return git(root, "rev-parse", "--short=12", "HEAD") + ("+" if dirty else "")


def lines(root, driver):
    """A name for the lines that a run of this driver is about; with changes that are not committed, none that lasts."""
    folders = ("core", CONCERN[driver])
    trees = "".join(git(root, "rev-parse", "HEAD:" + folder) for folder in folders)
    trees += git(root, "diff", "HEAD", "--", *folders)
    return hashlib.sha256(trees.encode()).hexdigest()[:12]


def read(ledger):
    if not os.path.exists(ledger):
        return []
    with open(ledger, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def quantile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else 0


def row(setup, runs):
    grants = [ms for run in runs for ms in run["first_grant_ms"]]
    excused = sorted({name for run in runs for name in run["excused"]})
    return "| %s | %d | %d | %d | %d | %d | %s | %d | %d / %d |" % (
        setup, len(runs), sum(len(run["faults"]) for run in runs), sum(run["grants"] for run in runs),
        sum(run["verdict"] == "kept" for run in runs), sum(run["verdict"] == "excused" for run in runs),
        ", ".join(excused) or "–", sum(run["verdict"] == "broken" for run in runs), quantile(grants, 0.5),
        quantile(grants, 1))


def show(root, ledger, drivers):
    runs = [run for run in read(ledger) if run["driver"] in drivers and run["lines"] == lines(root, run["driver"])]
    print("| Service | Runs | Faults | Grants | Kept | Excused | by | Broken | First grant after healing, ms: p50 / "
          "longest |\n|---|---|---|---|---|---|---|---|---|")
    for setup in plan.KINDS:
        those = [run for run in runs if run["setup"] == setup]
        if those:
            print(row(setup, those))
    print("\nCommits: " + (", ".join(sorted({run["commit"] for run in runs})) or "none"))
    return 0
