"""The ledger of simulations: which seeds were run, of which lines, and what came of them. Lines of JSON, one for a row of
seeds without a gap. A run counts for the lines that it ran: the files that decide what a seed does. A change there makes
it count no more; one elsewhere, as in a document, doesn't."""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import program

FOLDERS = ("base", "core", "include", "backends", "simulation")
NOT_A_SEEDS = ("planted/", "tests/", "tool/", "simulate.c", "workers.c", "workers.h", "CMakeLists.txt")  # who runs them, and how
WRITTEN_EACH = 10  # seconds


def git(*words):
    return subprocess.run(("git", "-C", program.ROOT, *words), stdout=subprocess.PIPE, text=True, check=True).stdout


def concerns(path, driver):
    """Whether the file decides what a seed of that driver does: no other driver's does, nor what is named after it. A cluster is
    made of what its service is."""
    parts = path.split("/")
    service = driver.partition("-")[0]
    if parts[0] == "backends":
        return len(parts) == 2 or parts[1] == service
    if path.startswith("simulation/"):
        return not "/".join(parts[1:]).startswith(NOT_A_SEEDS) and \
            not any(other in path.replace("_", "-") for other in program.DRIVERS if other not in (driver, service))
    return True


def lines(driver):
    """A name for them, as committed."""
    tree = [line for line in git("ls-tree", "-r", "HEAD", "--", *FOLDERS).splitlines()
            if concerns(line.partition("\t")[2], driver)]
    return hashlib.sha256("\n".join(tree).encode()).hexdigest()[:12]


def changed(driver):
    """Of those files, the ones that are not as committed."""
    return [path for path in git("diff", "--name-only", "HEAD", "--", *FOLDERS).splitlines() if concerns(path, driver)]


def read(file, driver):
    """The rows that count, none of which has a seed of another one."""
    if not os.path.exists(file):
        return []
    with open(file, encoding="utf-8") as ledger:
        rows = [json.loads(line) for line in ledger]
    now, kept, end = lines(driver), [], 0
    for row in sorted((row for row in rows if row["driver"] == driver and row["lines"] == now), key=lambda row: row["first"]):
        if row["first"] >= end:
            kept.append(row)
            end = row["first"] + row["seeds"]
    return kept


def missing(rows, first, count):
    """Of these seeds, rows of those that were not run yet: (first, how many)."""
    at, end = first, first + count
    for begin, over in ((row["first"], row["first"] + row["seeds"]) for row in rows):
        if at < min(begin, end):
            yield at, min(begin, end) - at
        at = max(at, over)
    if at < end:
        yield at, end - at


class Writer:
    """Adds to a ledger, every few seconds and at the end."""

    def __init__(self, file, driver):
        self.file = file
        os.makedirs(os.path.dirname(file) or ".", exist_ok=True)
        self.head = {"driver": driver, "lines": lines(driver), "commit": git("rev-parse", "--short=12", "HEAD").strip()}
        self.waiting, self.written = [], time.monotonic()

    def add(self, result):
        self.waiting.append(result)
        if time.monotonic() - self.written >= WRITTEN_EACH:
            self.write()

    def write(self):
        rows = []
        for result in sorted(self.waiting):
            if not rows or rows[-1][-1].seed + 1 != result.seed:
                rows.append([])
            rows[-1].append(result)
        text = "".join(json.dumps(self.row(row)) + "\n" for row in rows)
        file = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        os.write(file, text.encode())
        os.close(file)
        self.waiting, self.written = [], time.monotonic()

    def row(self, results):
        total = lambda name: sum(getattr(result, name) for result in results)
        return dict(self.head, first=results[0].seed, seeds=len(results), steps=total("steps"), grants=total("grants"),
                    faults=total("faults"), simulated_s=round(total("simulated_ns") / 1e9, 3),
                    cpu_s=round(total("cpu_ns") / 1e9, 3),
                    failed=[{"seed": r.seed, "why": r.failure} for r in results if r.failure],
                    at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


def run(path, options):
    """Those of the seeds that the ledger hasn't."""
    dirty = changed(options.driver)
    if dirty:
        sys.exit(f"simulate: a ledger needs committed files; commit these first: {' '.join(dirty)}")
    rows = read(options.ledger, options.driver)
    writer, totals = Writer(options.ledger, options.driver), program.Totals()
    gaps = list(missing(rows, options.first, options.seeds))
    left = sum(count for _, count in gaps)
    if left < options.seeds:
        print(f"{options.seeds - left} of {options.seeds} seeds are in the ledger")
    with tempfile.TemporaryDirectory() as folder:
        path = shutil.copy(path, folder)  # whoever builds meanwhile changes nothing
        run_gaps(path, options, gaps, totals, writer)
    writer.write()
    print(totals)
    failed = any(row["failed"] for row in read(options.ledger, options.driver))
    return 1 if failed else program.INTERRUPTED if totals.seeds < left else 0


def run_gaps(path, options, gaps, totals, writer):
    for first, count in gaps:
        begun = totals.seeds
        for result in program.results((path, "--driver", options.driver, "--first", str(first), "--seeds", str(count),
                                       "--jobs", str(options.jobs))):
            totals.add(result)
            writer.add(result)
            if result.failure:
                print(f"seed {result.seed} failed: {result.failure}\n  again: "
                      f"{program.again(options.driver, result.seed)}", flush=True)
        if totals.seeds - begun < count:
            break  # interrupted


def report(file):
    """The table for docs/data/simulation-runs.md."""
    print("| Driver | Commit | Seeds | Simulated | Grants | Faults | Steps | Steps and grants a second of one core | Failed |\n"
          "|---|---|---|---|---|---|---|---|---|")
    failed = []
    for driver in program.DRIVERS:
        rows = read(file, driver)
        if not rows:
            continue
        total = lambda name: sum(row[name] for row in rows)
        cpu = max(total("cpu_s"), 0.001)
        failed += [(driver, one) for row in rows for one in row["failed"]]
        print(f"| {driver} | {', '.join(sorted({row['commit'][:7] for row in rows}))} | {total('seeds'):,} | "
              f"{total('simulated_s') / 3600:,.0f} hours | {total('grants'):,} | {total('faults'):,} | {total('steps'):,} | "
              f"{total('steps') / cpu:,.0f}, {total('grants') / cpu:,.0f} | {sum(len(row['failed']) for row in rows)} |")
    for driver, one in failed:
        print(f"\n- {driver}, seed {one['seed']}: {one['why']}", end="")
    print(end="\n" if failed else "")
    return 0
