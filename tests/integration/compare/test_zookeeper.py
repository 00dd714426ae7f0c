"""locker compare on a ZooKeeper server, and on an ensemble of three."""
import unittest

from spawned import CompareCase, Spawned


class ZooKeeper(Spawned, CompareCase):
    BACKENDS = CUT = ("zookeeper", "zookeeper-ensemble")

    def test_served_in_order(self):
        self.assert_kept("fairness", *self.BACKENDS)
        for backend in self.BACKENDS:
            self.assertEqual(self.sample("fairness", backend, "out of order"), 0)

    def test_a_restart_with_data(self):
        self.assert_kept("restart", *self.BACKENDS)

    def test_a_restart_without_data(self):
        """Tokens start anew; whether two hold at once depends on who connects first."""
        self.assert_verdict("exception", "restart-empty", *self.BACKENDS)

    def test_failover(self):
        self.assert_kept("failover", "zookeeper-ensemble")
        self.assert_verdict("not run", "failover", "zookeeper")
        self.assert_verdict("not run", "failover-wait", *self.BACKENDS)
        self.assert_verdict("not run", "recovery", *self.BACKENDS)


if __name__ == "__main__":
    unittest.main()
