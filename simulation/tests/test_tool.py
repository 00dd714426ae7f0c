"""script/simulate's ledger, and its shrinker, on a program that only pretends to simulate; what it refuses; skips; and
script/seams."""
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "simulation", "tool"))
import ledger  # noqa: E402
import program  # noqa: E402
import shrink  # noqa: E402

# Seed 13 fails, whenever faults 3 and 7 are made, of nine.
PRETENDER = r"""#!/bin/sh
first=0 seeds=1 without=,
while [ $# -gt 0 ]; do
    case $1 in
    --first | --seed) first=$2 ;;
    --seeds) seeds=$2 ;;
    --without) without=,$2, ;;
    esac
    shift
done
seed=$first
while [ "$seed" -lt $((first + seeds)) ]; do
    why=
    case $seed$without in
    *,3,* | *,7,*) ;;
    13*) why="key ${#without} is gone" ;;
    esac
    printf '%d\t100\t10\t9\t9\t1000000000\t10000000\t%s\n' "$seed" "$why"
    [ "$seed" != HANGS_AT ] || exec sleep 60
    seed=$((seed + 1))
done
"""


def pretender(folder, hangs_at="-1"):
    path = os.path.join(folder, "pretender")
    with open(path, "w", encoding="utf-8") as file:
        file.write(PRETENDER.replace("HANGS_AT", hangs_at))
    os.chmod(path, 0o755)
    return path


def options(folder, first, seeds):
    return types.SimpleNamespace(driver="redis", first=first, seeds=seeds, jobs=1, ledger=os.path.join(folder, "ledger"))


def run(path, chosen):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = ledger.run(path, chosen)
    return status, said.getvalue()


class Ledger(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(subprocess.run, ("rm", "-r", self.folder), check=True)
        self.changed, ledger.changed = ledger.changed, lambda driver: []
        self.addCleanup(setattr, ledger, "changed", self.changed)

    def test_goes_on_where_it_stopped(self):
        path = pretender(self.folder)
        self.assertEqual(run(path, options(self.folder, 1, 5))[0], 0)
        self.assertEqual(run(path, options(self.folder, 8, 2))[0], 0)
        status, said = run(path, options(self.folder, 1, 12))
        self.assertEqual(status, 0)
        self.assertIn("7 of 12 seeds are in the ledger", said)
        self.assertTrue(said.splitlines()[-1].startswith("5 seeds, 5 s simulated in"), said)
        rows = ledger.read(options(self.folder, 1, 1).ledger, "redis")
        self.assertEqual(list(ledger.missing(rows, 1, 12)), [])
        self.assertEqual(sum(row["seeds"] for row in rows), 12)

    def test_tells_what_failed_again(self):
        path = pretender(self.folder)
        for _ in range(2):
            status, said = run(path, options(self.folder, 10, 5))
            self.assertEqual(status, 1)
        self.assertIn("0 seeds", said)

    def test_loses_what_was_under_way_and_no_more(self):
        script = ("import sys, types; sys.path.insert(0, %r); import ledger; ledger.changed = lambda driver: []; "
                  "sys.exit(ledger.run(%r, types.SimpleNamespace(driver='redis', first=1, seeds=9, jobs=1, ledger=%r)))" %
                  (os.path.dirname(ledger.__file__), pretender(self.folder, "4"), os.path.join(self.folder, "ledger")))
        child = subprocess.Popen((sys.executable, "-B", "-c", script.replace("import ledger", "import ledger; "
                                  "add = ledger.Writer.add; ledger.Writer.add = lambda w, r: (add(w, r), print(r.seed, flush=True))", 1)),
                                 stdout=subprocess.PIPE, text=True)
        while child.stdout.readline() != "4\n":
            pass
        child.send_signal(signal.SIGTERM)
        child.communicate()
        self.assertEqual(child.returncode, 130)
        rows = ledger.read(os.path.join(self.folder, "ledger"), "redis")
        self.assertEqual(list(ledger.missing(rows, 1, 9)), [(5, 5)])

    def test_counts_only_rows_of_these_lines(self):
        run(pretender(self.folder), options(self.folder, 1, 5))
        file = options(self.folder, 1, 1).ledger
        with open(file, encoding="utf-8") as rows:
            old = [dict(json.loads(row), lines="others") for row in rows]
        with open(file, "w", encoding="utf-8") as rows:
            rows.writelines(json.dumps(row) + "\n" for row in old)
        self.assertEqual(ledger.read(file, "redis"), [])

    def test_counts_no_seed_twice(self):
        path = pretender(self.folder)
        run(path, options(self.folder, 1, 5))
        file = options(self.folder, 1, 1).ledger
        with open(file, encoding="utf-8") as rows:
            text = rows.read()
        with open(file, "a", encoding="utf-8") as rows:
            rows.write(text)
        self.assertEqual(sum(row["seeds"] for row in ledger.read(file, "redis")), 5)

    def test_knows_which_files_decide(self):
        for path, driver, decides in (("core/lock.c", "redis", True), ("backends/redis/lock/release.c", "redis", True),
                                      ("backends/redis/lock/release.c", "zookeeper", False),
                                      ("backends/module.c", "redis", True), ("backends/file/paths.c", "redis", False),
                                      ("simulation/world/fibers.c", "redis", True),
                                      ("simulation/zookeeper/tree.c", "redis", False),
                                      ("simulation/redis_service.c", "redis", True),
                                      ("simulation/redis_service.c", "redis-cluster", True),
                                      ("simulation/redis_cluster.c", "redis", False),
                                      ("simulation/run_redis_cluster.c", "redis-cluster", True),
                                      ("backends/redis/lock/release.c", "redis-cluster", True),
                                      ("backends/memory/memory.c", "memory", True),
                                      ("simulation/run_memory.c", "redis", False),
                                      ("simulation/run_redis.c", "memory", False),
                                      ("simulation/planted/README.md", "redis", False),
                                      ("simulation/tests/redis_pair.c", "redis", False),
                                      ("simulation/simulate.c", "redis", False)):
            self.assertEqual(ledger.concerns(path, driver), decides, path)


class Shrinker(unittest.TestCase):
    def test_keeps_what_is_needed(self):
        shrink.COURSES = 2
        with tempfile.TemporaryDirectory() as folder:
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                self.assertEqual(shrink.run(pretender(folder), "redis", 13, 8), 1)
            self.assertIn("2 of 9 faults are needed", said.getvalue())
            self.assertIn("--without 0,1,2,4,5,6,8", said.getvalue())

    def test_finds_few_of_many(self):
        for needed in (set(), {1}, {50}, {3, 40, 41}, set(range(1, 60, 7))):
            self.assertEqual(set(shrink.least(list(range(1, 60)), lambda some: needed <= set(some))), needed)

    def test_ends_as_the_program_does(self):
        with self.assertRaises(SystemExit) as ended:
            shrink.run("/bin/sh", "redis", 13, 1)  # which knows no --driver
        self.assertEqual(ended.exception.code, 2)


class Refusals(unittest.TestCase):
    def test_what_is_no_use(self):
        for words in ("--ledger F --seeds 0", "--ledger F --seeds -5", "--ledger F --seeds 1_0", "--ledger F --first -1",
                      "--ledger F --jobs 0", "--ledger F --seed 7", "--ledger F --report --seeds 3", "--ledger F --shrink 7",
                      "--shrink -1", "--shrink x", "--shrink 7 --seeds 3", "--shrink 7 --first 1", "--planted --seeds 3",
                      "--planted nosuch", "--planted nosuch --check"):
            done = subprocess.run((os.path.join(ROOT, "script", "simulate"), *words.split()), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (64, ""), words)
            self.assertTrue(done.stderr.startswith("simulate: "), done.stderr)


class Skips(unittest.TestCase):
    def test_is_told_or_refused(self):
        with tempfile.NamedTemporaryFile("r") as told:
            for skips, status in (("", 77), ("refuse", 1)):
                done = subprocess.run(("sh", os.path.join(ROOT, "simulation", "tests", "skipped.sh"), "this", "none here"),
                                      env={**os.environ, "LOCKER_TEST_SKIPS": skips, "LOCKER_TEST_SKIPPED": told.name},
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
                self.assertEqual(done.returncode, status)
            self.assertEqual(told.read(), "this: none here\n")


class Seams(unittest.TestCase):
    def wants(self, name):
        """How script/seams ends for a library that wants it."""
        with tempfile.TemporaryDirectory() as folder:
            source = f"void {name}(void); void f(void); void f(void) {{ {name}(); }}"
            subprocess.run(("cc", "-fno-builtin", "-x", "c", "-c", "-o", "f.o", "-"), cwd=folder, input=source, text=True,
                           check=True)
            subprocess.run(("ar", "rc", "libf.a", "f.o"), cwd=folder, check=True)
            return subprocess.run((os.path.join(ROOT, "script", "seams"), os.path.join(folder, "libf.a")),
                                  stdout=subprocess.DEVNULL, check=False).returncode

    def test_let_through_what_is_listed(self):
        self.assertEqual(self.wants("memcpy"), 0)
        for name in ("memfd_create", "strfry", "clock_nanosleep"):
            self.assertEqual(self.wants(name), 1, name)


if __name__ == "__main__":
    unittest.main()
