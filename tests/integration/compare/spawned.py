"""Each scenario in a short form on real servers that locker compare starts: what every family of them has to show.

A test file names its backends and adds what is its own."""
import json
import os
import subprocess

from comparetest import CompareCase
from told import report_rerun, report_skip


def networks_can_be_cut():
    """A bridge and a rule that drops packets, in a namespace that ends with the command."""
    script = "ip link add name bridge type bridge && iptables -A INPUT -s 10.0.0.1 -j DROP"
    try:
        return os.geteuid() == 0 and subprocess.run(["unshare", "-n", "sh", "-c", script], check=False,
                                                    stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


# What a scenario has of a driver's promises.
SENTENCES = {"crash": ["holder_dies"], "stall": ["holder_stalls"], "restart": ["service_restarts"],
             "restart-empty": ["service_restarts", "token"], "failover": ["failover"], "partition": ["cut_off"]}


class Spawned:
    """Mixed into a CompareCase with BACKENDS; all of them are compared once, before the first test."""

    BACKENDS = ()  # those that --spawn starts
    CUT = ()       # those of them whose networks can be cut
    found = None

    def setUp(self):
        super().setUp()
        kind = type(self)
        if kind.found is None:
            kind.found = self.compare("--spawn=" + ",".join(self.BACKENDS))
            kind.judged = self.locker("check-history", "--allow", "overlap,truth,tokens", self.json)
            kind.text = self.output

    def sample(self, scenario, backend, name, part="max"):
        return self.found.sample(scenario, backend, name, part)

    def say_again(self, scenario, backend, why):
        report_rerun("%s.%s.%s" % (type(self).__name__, scenario, backend), why)

    def result(self, scenario, backend):
        """What a busy machine was too slow for, or kept a server from, is run again, alone, up to twice."""
        results = self.found.results
        for _ in range(2):
            if results[scenario, backend]["verdict"] == "not run":
                self.say_again(scenario, backend, results[scenario, backend]["why"])
                again = self.compare("--spawn=" + backend, "--scenario=" + scenario)
                results[scenario, backend] = again.results[scenario, backend]
        return results[scenario, backend]

    def assert_verdict(self, verdict, scenario, *backends):
        for backend in backends:
            result = self.found.results[scenario, backend] if verdict == "not run" else self.result(scenario, backend)
            self.assertEqual(result["verdict"], verdict, result)

    def assert_two_held(self, scenario, backend):
        """An exception that is told. Where the first was told before the second had it, as on a busy machine, that shows nothing:
        it is run again, alone, up to twice."""
        for _ in range(2):
            if self.result(scenario, backend)["verdict"] in ("kept", "exception") and not self.sample(scenario, backend, "overlap"):
                self.say_again(scenario, backend, "the holder knew of its loss before the next one had the lock")
                again = self.compare("--spawn=" + backend, "--scenario=" + scenario, "--runs", "3")
                self.found.results[scenario, backend] = again.results[scenario, backend]
        self.assert_verdict("exception", scenario, backend)
        self.assertGreater(self.sample(scenario, backend, "overlap"), 0)

    def assert_kept(self, scenario, *backends):
        """The promise was kept, and never did two hold the lock at once."""
        self.assert_verdict("kept", scenario, *backends)
        for backend in backends:
            self.assertEqual(self.sample(scenario, backend, "overlap"), 0, (scenario, backend))

    def test_nothing_is_broken(self):
        self.assertEqual([r for r in self.found.results.values() if r["verdict"] == "BROKEN"], [])
        self.assertIn(" 0 BROKEN", self.text)
        self.assertEqual(self.judged.returncode, 0, self.judged.stdout + self.judged.stderr)

    def test_promises_are_printed_whole(self):
        drivers = json.loads(self.code(0, "drivers", "--json").stdout)["drivers"]
        told = {driver["name"]: driver["semantics"] for driver in drivers}
        for (scenario, backend), result in self.found.results.items():
            semantics = told[backend.split("-")[0]]
            for name in SENTENCES.get(scenario, ()) if result["promise"] else ():
                self.assertIn(semantics[name], result["promise"])

    def test_the_run_is_described(self):
        told = self.found.comparison
        self.assertIn("locker compare", told["command"])
        self.assertEqual([b["name"] for b in told["backends"]], list(self.BACKENDS))
        for backend in told["backends"]:
            self.assertRegex(backend["version"], r"^(Redis|Valkey|ZooKeeper|etcd) \d+\.\d+|kernel")

    def tried_in(self, backend):
        """On a busy machine who tries may come when the one before has gone: it is run again, alone, up to twice."""
        for _ in range(2):
            if self.sample("counter", backend, "tried in") == 5:
                self.say_again("counter", backend, "each that tried came when the one before had gone")
                again = self.compare("--spawn=" + backend, "--scenario=counter")
                self.found.results["counter", backend] = again.results["counter", backend]
        return self.sample("counter", backend, "tried in")

    def test_counter(self):
        self.assert_kept("counter", *self.BACKENDS)
        for backend in self.BACKENDS:
            tried = self.tried_in(backend)
            self.assertLess(tried, 5)
            self.assertEqual(self.sample("counter", backend, "counter of those who tried"), tried)
            self.assertEqual(self.sample("counter", backend, "waited in"), 5)
            self.assertEqual(self.sample("counter", backend, "counter of those who waited"), 5)

    def test_times_and_rates(self):
        for scenario, names in (("uncontended", ("lock", "unlock")), ("hand-off", ("hand-off",)),
                                ("throughput", ("own keys", "one key"))):
            self.assert_verdict("measured", scenario, *self.BACKENDS)
            for backend in self.BACKENDS:
                for name in names:
                    self.assertGreater(self.sample(scenario, backend, name), 0)

    def test_crash(self):
        self.assert_kept("crash", *self.BACKENDS)
        for backend in self.BACKENDS:
            if self.sample("crash", backend, "lease") > 0:
                self.assertGreaterEqual(self.sample("crash", backend, "gap", "min"), 600)

    def test_a_stalled_holder(self):
        self.assert_kept("stall", *self.BACKENDS)
        for backend in self.BACKENDS:
            samples = self.found.results["stall", backend]["samples"]
            for name in ("kept",) if backend == "file" else ("late write refused", "look said lost",
                                                             "unlock said lost"):
                self.assertEqual(samples[name]["min"], 1)

    def test_slow_work(self):
        self.assert_kept("slow-work", *self.BACKENDS)

    def test_unlock_after_loss(self):
        self.assert_verdict("kept", "unlock-after-loss", *self.BACKENDS)

    def drivers(self, feature):
        """The backends whose driver has it, and those whose driver has not."""
        told = json.loads(self.code(0, "drivers", "--json").stdout)["drivers"]
        has = {driver["name"] for driver in told if driver["semantics"][feature] not in ("none", 0)}
        return ([b for b in self.BACKENDS if b.split("-")[0] in has],
                [b for b in self.BACKENDS if b.split("-")[0] not in has])

    def test_readers_and_a_writer(self):
        can, others = self.drivers("shared")
        self.assert_kept("readers", *can)
        self.assert_verdict("not run", "readers", *others)

    def test_permits(self):
        can, others = self.drivers("permits_most")
        self.assert_kept("permits", *can)
        self.assert_verdict("not run", "permits", *others)
        for backend in can:
            self.assertIn(self.sample("permits", backend, "at once"), (1, 2, 3))

    def test_partition(self):
        for backend in self.BACKENDS:
            if backend not in self.CUT:
                self.assert_verdict("not run", "partition", backend)
            elif networks_can_be_cut():
                self.assert_kept("partition", backend)
                self.assertEqual(self.found.results["partition", backend]["samples"]["told"]["count"], 3)
            else:
                self.assert_verdict("not run", "partition", backend)
                self.assertRegex(self.found.results["partition", backend]["why"],
                                 "needs root|needs network|needs iptables|needs the program")
                report_skip("compare: partition on " + backend, self.found.results["partition", backend]["why"])


__all__ = ["CompareCase", "Spawned"]
