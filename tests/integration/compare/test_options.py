"""The options of locker compare, and wrong input for each: one line that names it, and nothing left running."""
import os
import unittest

from clitest import RedisServer, timely
from comparetest import CompareCase

SCENARIOS = ("counter", "uncontended", "hand-off", "throughput", "fairness", "crash", "stall", "slow-work",
             "unlock-after-loss", "readers", "permits", "restart", "restart-empty", "recovery", "failover", "failover-wait",
             "failover-recovery", "partition")
KINDS = ("file", "redis", "redis-replica", "zookeeper", "zookeeper-ensemble", "etcd", "etcd-ensemble")


class Options(CompareCase):
    def tearDown(self):
        self.assert_all_goes()

    def assert_wrong(self, code, names, *arguments, **env):
        self.wrong(code, names, "compare", "-q", *arguments, env=dict(self.env, **env))

    def test_help_names_every_option_and_kind(self):
        text = self.code(0, "help", "compare").stdout
        self.assertEqual(text, self.code(0, "compare", "--help").stdout)
        for name in ("--backend", "--spawn", "--scenario", "--list", "--runs", "--quick", "--html", "--json",
                     "--quiet", "--version") + KINDS:
            self.assertIn(name, text)
        self.assertNotIn("--worker", text)

    def test_list_names_every_scenario(self):
        text = self.code(0, "compare", "--list").stdout
        listed = [line.split()[0] for line in text.splitlines() if not line.startswith(" ")]
        self.assertEqual(tuple(listed), SCENARIOS)
        self.assertNotIn("counter", self.code(0, "compare", "--list", "-s", "crash").stdout.split())

    def test_invalid_options(self):
        self.assert_wrong(64, "nothing to compare")
        self.assert_wrong(64, "'more'", "--spawn=file", "more")
        self.assert_wrong(64, "--frobnicate", "--frobnicate")
        self.assert_wrong(64, "--backend", "--backend")
        for number in ("0", "-1", "x", "1001", ""):
            self.assert_wrong(64, "--runs", "--spawn=file", "--runs", number)
        self.assert_wrong(78, "'nosuch:'", "--backend", "nosuch://x")
        self.assert_wrong(64, "at most 511 bytes", "--backend", "file:///" + "x" * 504)

    def test_unknown_names_are_reported_with_the_known_ones(self):
        self.assert_wrong(64, "'crush'", "--spawn=file", "--scenario", "crush")
        for name in SCENARIOS:
            self.assert_wrong(64, name, "--spawn=file", "--scenario", "")
        self.assert_wrong(64, "'redos'", "--spawn=file,redos")
        for name in KINDS:
            self.assert_wrong(64, name, "--spawn=x")

    def test_files_that_can_not_be_written(self):
        missing = os.path.join(self.directory, "missing", "file")
        self.assert_wrong(71, missing, "--spawn=file", "-s", "counter", "--json", missing)
        self.assert_wrong(71, "/dev/full", "--spawn=file", "-s", "counter", "--json", "/dev/full")
        self.assert_wrong(71, "TMPDIR", "--spawn=file", "-s", "counter", TMPDIR="/proc/none")

    def test_a_missing_program_is_named_with_its_package(self):
        empty = os.path.join(self.directory, "empty")
        os.mkdir(empty)
        self.assert_wrong(69, "install the package " + RedisServer.package, "--spawn=file,redis", PATH=empty)
        self.assert_wrong(69, "install the package default-jre-headless", "--spawn=zookeeper", PATH=empty)
        self.assert_wrong(69, "install the package etcd-server", "--spawn=etcd", PATH=empty)

    @timely
    def test_files_on_their_own(self):
        found = self.compare("--spawn=file", "-s", "counter", "-s", "crash", "-s", "restart", "-s", "counter",
                             "--runs", "2")
        self.assertEqual(set(found.results), {(name, "file") for name in ("counter", "crash", "restart")})
        self.assertEqual(found.results["counter", "file"]["verdict"], "kept")
        self.assertEqual(found.comparison["runs"], 2)
        self.assertEqual({line.get("run") for line in found.of("crash", "file")}, {1, 2})
        self.assertEqual(found.results["crash", "file"]["samples"]["gap"]["count"], 2)
        self.assertEqual(found.results["restart", "file"]["why"], "there is no server and no network")
        self.assertEqual(self.code(0, "check-history", "-q", self.json).stdout, "")
        self.assertIn("2 kept", self.output)

    def test_memory_is_of_one_process(self):
        found = self.compare("--backend", "memory:", "-s", "counter", "-s", "uncontended")
        self.assertEqual(found.results["counter", "given-memory"]["verdict"], "not run")
        self.assertIn("threads of one process", found.results["counter", "given-memory"]["why"])
        self.assertEqual(found.results["uncontended", "given-memory"]["verdict"], "measured")


if __name__ == "__main__":
    unittest.main()
