"""A short campaign for each driver, and clients that are wrong on purpose, which it has to catch."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import campaign as campaigns
import round as rounds
from servers import redis_server

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ["BUILD"]
FAULTY = os.path.join(HERE, "faulty_worker")


class Campaign(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="locker-campaign-test-")
        self.addCleanup(directory.cleanup)
        self.ledger = os.path.join(directory.name, "ledger")
        self.evidence = os.path.join(directory.name, "evidence")

    def run_it(self, *words, **env):
        return subprocess.run([sys.executable, "-B", os.path.join(HERE, "campaign.py"), "--build", BUILD, "--ledger",
                               self.ledger, "--evidence", self.evidence, *words], env=dict(os.environ, **env),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=150, check=False)

    def keeps(self, driver, runs):
        done = self.run_it("--driver", driver, "--runs", str(runs), "--lanes", "3")
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(self.ledger, encoding="utf-8") as file:
            rounds = [json.loads(line) for line in file]
        self.assertEqual(sorted(one["seed"] for one in rounds), list(range(1, runs + 1)))
        self.assertGreater(sum(one["grants"] for one in rounds), runs)
        self.assertGreater(sum(len(one["faults"]) for one in rounds), runs)

    def test_file(self):
        self.keeps("file", 3)

    def test_redis(self):
        self.keeps("redis", 3)
        again = self.run_it("--driver", "redis", "--runs", "1", "--lanes", "1")
        self.assertIn("seed 4", again.stdout)  # those that the ledger has are not run again
        self.assertIn("| redis | 4 |", self.run_it("--report").stdout)

    def test_redis_clock(self):
        self.keeps("redis-clock", 2)

    def test_redis_cluster(self):
        self.keeps("redis-cluster", 3)

    def test_zookeeper(self):
        self.keeps("zookeeper", 3)

    def test_etcd(self):
        self.keeps("etcd", 3)

    def catches(self, fault, *words, kind="worker-stop"):
        """Within a few rounds: in which of them the threads meet, and what it leads to first, is chance."""
        for seed in range(5, 11):
            done = self.run_it("--driver", "redis", "--seed", str(seed), "--runs", "1", "--lanes", "1", "--fault", kind,
                               "--worker", FAULTY, FAULT=fault,
                               CAMPAIGN_WORKER=os.path.join(BUILD, "tests/campaign/campaign_worker"))
            if done.returncode == 1 and all(word in done.stdout for word in words):
                break
        self.assertEqual(done.returncode, 1, done.stdout)
        for word in words:
            self.assertIn(word, done.stdout)
        kept = os.listdir(os.path.join(self.evidence, "redis-%d" % seed))
        self.assertLessEqual({"plan.json", "faults.jsonl", "worker-0.jsonl", "redis.log", "report.json"}, set(kept))

    def test_a_deadline_by_ping(self):
        self.catches("ping", "overlap of key/0")

    def test_deletion_without_compare(self):
        self.catches("delete", "release of key/0")

    def test_a_reader_beside_a_writer(self):
        self.catches("shares", "overlap of key/0")

    def test_a_key_that_stays(self):
        self.catches("stays", "without an end at the service")

    def test_a_version_that_is_not_the_one_asked_for(self):
        """A folder without a liblocker: every worker would run this version."""
        done = self.run_it("--driver", "file", "--runs", "1", "--lanes", "1", "--beside", os.path.dirname(self.ledger))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("does not run the liblocker of", done.stdout)

    def test_a_version_that_is_starved(self):
        chosen = type("Chosen", (), {"driver": ["redis"], "ledger": self.ledger})
        for few, found in ((3, True), (4, False)):
            with open(self.ledger, "w", encoding="utf-8") as file:
                for seed in range(5):
                    file.write(json.dumps({"driver": "redis", "seed": seed, "shares": [[20, 2], [few, 1]]}) + "\n")
            self.assertEqual(campaigns.starved(chosen, 0), found)

    def test_a_crash(self):
        self.catches("crashes", "ended with 3")

    def test_a_wait_that_gives_up_before_its_end(self):
        directory = os.path.dirname(self.ledger)
        done = subprocess.run([os.path.join(BUILD, "tests/campaign/campaign_worker"), "look",
                               "fault+file://%s/locks?fault=acquire,unavailable" % directory,
                               os.path.join(directory, "history"), "looker", "a", "0", "5000"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("a wait of", done.stderr)
        seen = json.loads(done.stdout)["key/0"]
        self.assertEqual((seen["status"], seen["then"], seen["held"]), ("unavailable", "ok", False))

    def test_what_is_late_on_a_slow_machine_is_not_judged(self):
        one = rounds.Round({}, None, {"seed": 1}, self.evidence)
        self.addCleanup(one.lines.file.close)
        one.canary.end()
        one.canary.late_s = 0.0
        one.came_late("early")
        one.canary = rounds.Canary()
        while not one.canary.late_s:  # it sings, and slept a little too long once
            time.sleep(0.01)
        # again and again: this machine may be slower to stop than the helper is to wake it
        helper = subprocess.Popen(["sh", "-c", "while sleep 0.5; do kill -CONT %d; done" % os.getpid()])
        os.kill(os.getpid(), signal.SIGSTOP)
        helper.kill()
        helper.wait()
        one.canary.end()
        one.came_late("late")
        self.assertEqual(one.reasons, ["early"])
        self.assertIn("late; but the machine was too slow", one.unjudged[0])

    def forgotten(self, asked, came):
        """What excuses a smaller token behind a greater one, around a flush from 100 to 200."""
        path = os.path.join(os.path.dirname(self.ledger), "history.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for t, handle, token in ((asked, 1, None), (110, 2, None), (120, 2, 9), (came, 1, 8)):
                file.write(json.dumps(dict(t=t, handle=handle, **({"token": token} if token else {}))) + "\n")
        one = rounds.Round({}, None, {"seed": 1, "setup": "redis"}, self.evidence)
        self.addCleanup(one.lines.file.close)
        one.canary.end()
        one.exceptions["flushall"] = (100, 200)
        return one.excuse({"check": "tokens", "key": "key/0", "first": {"file": path, "line": 4},
                           "second": {"file": path, "line": 3}})

    def test_a_grant_that_was_forgotten_on_its_way(self):
        self.assertEqual(self.forgotten(150, 300), "flushall")
        self.assertIsNone(self.forgotten(201, 300))
        self.assertIsNone(self.forgotten(50, 99))

    def with_a_server_that_fails(self, starts, *words):
        """Its first start is number 1."""
        directory = os.path.dirname(self.ledger)
        server, count = os.path.join(directory, "server"), os.path.join(directory, "count")
        with open(server, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\necho >>%s\ncase " %s " in *" $(wc -l <%s) "*) exit 1 ;; esac\nexec %s "$@"\n' % (
                count, starts, count, shutil.which(redis_server())))
        os.chmod(server, 0o755)
        return self.run_it("--driver", "redis", "--seed", "5", "--runs", "1", "--lanes", "1", *words,
                           LOCKER_TEST_REDIS_SERVER=server)

    def test_a_server_that_starts_at_last(self):
        done = self.with_a_server_that_fails("1 2")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("no redis, once more", done.stdout)
        self.assertEqual(os.listdir(os.path.join(self.evidence, "no-redis-0")), ["redis.log"])

    def test_a_server_that_never_starts(self):
        done = self.with_a_server_that_fails("1 2 3")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("1 lanes failed", done.stdout)

    def test_a_server_that_does_not_come_back(self):
        done = self.with_a_server_that_fails(" ".join(map(str, range(2, 50))), "--fault", "server-kill")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("unjudged", done.stdout)
        self.assertIn("redis.log", os.listdir(os.path.join(self.evidence, "redis-5")))
        self.assertFalse(os.path.exists(self.ledger))


if __name__ == "__main__":
    unittest.main()
