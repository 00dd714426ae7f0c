"""locker compare on files, a Redis server, and one with a replica."""
import unittest

from spawned import CompareCase, Spawned


class Redis(Spawned, CompareCase):
    BACKENDS = ("file", "redis", "redis-replica")
    CUT = ("redis",)

    def test_order(self):
        self.assert_kept("fairness", "file")
        self.assert_verdict("measured", "fairness", "redis", "redis-replica")

    def test_a_killed_process_frees_a_file_at_once(self):
        """No lease to wait for; later than 500 ms after its end would be broken (lk_free_ms)."""
        self.assert_kept("crash", "file")
        self.assertEqual(self.sample("crash", "file", "lease"), 0)

    def test_a_restart_with_data(self):
        self.assert_kept("restart", "redis")
        self.assert_verdict("not run", "restart", "file", "redis-replica")

    def test_a_restart_without_data(self):
        """Until its next renewal the holder does not know; another has the lock, with a greater token."""
        self.assert_two_held("restart-empty", "redis")
        self.assertIn("lost its data", self.found.results["restart-empty", "redis"]["why"])

    def test_failover(self):
        """A replica that was not sent the lock does let two hold it, and the tokens tell them apart."""
        self.assert_two_held("failover", "redis-replica")
        self.assertEqual(self.sample("failover", "redis-replica", "token grew", "min"), 1)
        self.assert_verdict("not run", "failover", "file", "redis")

    def test_failover_with_wait(self):
        self.assert_kept("failover-wait", "redis-replica")
        self.assertEqual(self.sample("failover-wait", "redis-replica", "refused", "min"), 1)

    def test_with_recovery_a_lock_stays(self):
        for scenario, backend in (("recovery", "redis"), ("failover-recovery", "redis-replica")):
            self.assert_kept(scenario, backend)
            self.assertEqual(self.sample(scenario, backend, "kept", "min"), 1)
            self.assertGreater(self.sample(scenario, backend, "price"), 1000)


if __name__ == "__main__":
    unittest.main()
