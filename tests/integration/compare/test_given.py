"""Services that were given by --backend: nothing is done to their servers, passwords stay secret, and a broken
promise is told."""
import subprocess
import time
import unittest

from clitest import Redis, timely
from comparetest import LIMIT, LOCKER, CompareCase, Found
from told import report_rerun

FORGET = """local keys, waiting, n = redis.call('KEYS', '*compare.*'), 0, 0
for _, k in ipairs(keys) do if k:find('queue') then waiting = waiting + redis.call('ZCARD', k) end end
for _, k in ipairs(keys) do if waiting >= tonumber(ARGV[1]) and not k:find('queue') then n = n + redis.call('DEL', k) end end
return n"""
STARVE = """local most, n = 0, 0
for _, k in ipairs(redis.call('KEYS', '*compare.*shared:*')) do
  if redis.call('TYPE', k).ok == 'zset' then most = math.max(most, redis.call('ZCARD', k)) end
end
for _, k in ipairs(ARGV[1] == '1' and redis.call('KEYS', '*compare.*queue*') or {}) do
  for _, one in ipairs(redis.call('ZRANGE', k, 0, -1)) do
    if not one:find('^[SP]') and one ~= 'free' then n = n + redis.call('ZREM', k, one) end
  end
end
return most"""
LOCKED = "local n = 0; for _, k in ipairs(redis.call('KEYS', 'compare.*.slow-work.1')) do n = n + redis.call('DEL', k) end; return n"


class Given(CompareCase):
    def setUp(self):
        super().setUp()
        self.redis = Redis()
        self.addCleanup(self.redis.remove)

    @timely
    def test_a_server_is_not_harmed(self):
        kept = ("counter", "crash", "unlock-after-loss")
        harmful = ("restart", "restart-empty", "recovery", "failover", "failover-wait", "failover-recovery", "partition")
        found = self.compare("--backend", self.redis.uri, "--backend", self.uri,
                             *["--scenario=" + name for name in kept + harmful])
        for scenario in kept:
            self.assertEqual(found.results[scenario, "given-redis"]["verdict"], "kept")
            self.assertEqual(found.results[scenario, "given-file"]["verdict"], "kept")
        for scenario in harmful:
            self.assertEqual(found.results[scenario, "given-redis"]["verdict"], "not run")
            self.assertIn("--spawn", found.results[scenario, "given-redis"]["why"])
        self.assertEqual(self.redis.process.poll(), None)

    def test_two_of_one_kind_are_told_apart(self):
        found = self.compare("--backend", self.redis.uri, "--backend", self.redis.uri, "-s", "counter")
        self.assertEqual(set(found.results), {("counter", "given-redis"), ("counter", "given-redis-2")})

    @timely
    def test_a_password_is_not_shown(self):
        self.redis.ask("CONFIG", "SET", "requirepass", "ver/y@secret")
        uri = self.redis.uri.replace("redis://", "redis://:ver%2Fy%40secret@")
        found = self.compare("--backend", uri, "-s", "counter")
        self.assertEqual(found.results["counter", "given-redis"]["verdict"], "kept")
        with open(self.json) as file:
            told = file.read() + self.output
        self.assertNotIn("secret", told)
        self.assertIn("***", told)

    def test_out_of_reach(self):
        self.redis.remove()
        self.wrong(69, "127.0.0.1", "compare", "-q", "--backend", self.redis.uri, "--spawn=file")
        self.assert_all_goes()

    @timely
    def test_a_broken_promise_is_reported(self):
        """Somebody deletes the lock's key whenever it is held."""
        running = subprocess.Popen([LOCKER, "compare", "-q", "--quick", "--json", self.json, "-s", "slow-work",
                                    "--backend", self.redis.uri], env=self.env, stdout=subprocess.PIPE, text=True)
        self.addCleanup(running.stdout.close)
        end = time.monotonic() + LIMIT
        while running.poll() is None and time.monotonic() < end:
            self.redis.ask("EVAL", LOCKED, "0")
            time.sleep(0.01)
        self.assertEqual(running.wait(LIMIT), 1)
        self.assertIn("BROKEN", running.stdout.read())


    def forget(self, scenario, waiting, times):
        """Delete what the service knows of those who hold, so many times, each when so many wait."""
        running = subprocess.Popen([LOCKER, "compare", "-q", "--quick", "-s", scenario, "--backend", self.redis.uri],
                                   env=self.env, stdout=subprocess.PIPE, text=True)
        self.addCleanup(running.stdout.close)
        end = time.monotonic() + LIMIT
        while running.poll() is None and times > 0 and time.monotonic() < end:
            times -= self.redis.ask("EVAL", FORGET, "0", str(waiting)) != ":0"
        told = running.stdout.read()
        self.assertRegex(told, "given-redis +BROKEN")
        self.assertEqual(running.wait(LIMIT), 1)

    @timely
    def test_a_writer_beside_a_reader_is_reported(self):
        self.forget("readers", 2, 1000)

    def starve(self):
        """The reason of the verdict when the service forgets each writer that waits, once three have read at once."""
        running = subprocess.Popen([LOCKER, "compare", "-q", "-s", "readers", "--backend", self.redis.uri, "--json",
                                    self.json], env=self.env, stdout=subprocess.DEVNULL)
        most, end = 0, time.monotonic() + LIMIT
        while running.poll() is None and time.monotonic() < end:
            most = max(most, int(self.redis.ask("EVAL", STARVE, "0", "1" if most >= 3 else "0")[1:]))
        code, result = running.wait(LIMIT), Found(self.json).results["readers", "given-redis"]
        self.assertEqual(code, 1 if result["verdict"] == "BROKEN" else 0, result)
        return result.get("why") or str(result["samples"])

    def test_an_overtaken_writer_is_reported(self):
        """On a busy machine as what would have been told; and where a reader stood still for a second, once more."""
        told = []
        while len(told) < 6 and "the writer waited" not in "".join(told):
            if told:
                report_rerun(self.id(), told[-1])
            told.append(self.starve())
        self.assertIn("the writer waited", "".join(told), told)

    @timely
    def test_a_permit_too_many_is_reported(self):
        self.forget("permits", 0, 1)


if __name__ == "__main__":
    unittest.main()
