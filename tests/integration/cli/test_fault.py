"""Faults before a real service, from the shell: fault+SCHEME in a URI."""
import json
import unittest
from urllib.parse import quote

from clitest import LIMIT, Case


class Faults(Case):
    def faulty(self, script):
        return "fault+%s?command_timeout=500ms&fault=%s" % (self.uri, quote(script))

    def test_a_lock_that_is_lost(self):
        running = self.hold("k", env=dict(self.env, LOCKER_URI=self.faulty("acquire:k lose-lock")))
        self.assertEqual(running.process.wait(LIMIT), 76)
        self.assertIn("lost the lock 'k'", running.error_text())
        self.code(0, "run", "-n", "k", "--", "true")

    def test_an_unlock_without_an_answer_leaves_the_lock_free(self):
        done = self.code(0, "run", "-u", self.faulty("release lose-reply"), "k", "--", "echo", "done")
        self.assertEqual(done.stdout, "done\n")
        self.assertIn("the fault script", done.stderr)
        self.code(0, "run", "-n", "k", "--", "true")

    def test_a_delay_beyond_the_deadline(self):
        # the first attempt is a try, which command_timeout bounds: the service is out of reach
        self.wrong(69, "k", "run", "-u", self.faulty("acquire always delay=2s"), "-w", "100ms", "k", "--", "true")
        self.code(0, "run", "-n", "k", "--", "true")

    def test_wrong_words(self):
        self.wrong(78, "'sometimes'", "ping", "-u", self.faulty("ping sometimes"))
        self.wrong(78, "'fault+no:'", "ping", "-u", "fault+no:x")
        self.wrong(78, "fault+SCHEME", "ping", "-u", "fault:x")

    def test_the_list_of_drivers(self):
        drivers = json.loads(self.code(0, "drivers", "--json").stdout)["drivers"]
        self.assertIn("fault", [driver["name"] for driver in drivers])


if __name__ == "__main__":
    unittest.main()
