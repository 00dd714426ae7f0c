"""locker compare on an etcd server, and on three."""
import unittest

from spawned import CompareCase, Spawned


class Etcd(Spawned, CompareCase):
    BACKENDS = CUT = ("etcd", "etcd-ensemble")

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
        self.assert_kept("failover", "etcd-ensemble")
        self.assert_verdict("not run", "failover", "etcd")
        self.assert_verdict("not run", "failover-wait", *self.BACKENDS)
        self.assert_verdict("not run", "recovery", *self.BACKENDS)


if __name__ == "__main__":
    unittest.main()
