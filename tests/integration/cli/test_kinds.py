"""locker run -s, -p and --also, and what show and break say of them."""
import json
import os
import unittest

from clitest import Case


class Kinds(Case):
    def shown(self, key):
        return json.loads(self.code(0, "show", "--json", key).stdout)

    def test_shared(self):
        first = self.hold("k", "-s", "--owner", "first")
        second = self.hold("k", "--shared", "--owner", "second")
        self.assertIn("'k' is held by first and 1 more", self.code(75, "run", "-n", "-v", "k", "true").stderr)
        seen = self.shown("k")
        self.assertEqual((seen["mode"], seen["permits"]), ("shared", None))
        self.assertEqual([h["owner"] for h in seen["holders"]], ["first", "second"])
        self.assertIn("k: held, shared by 2\n", self.code(0, "show", "k").stdout)
        self.assertEqual(first.finish(), 0)
        self.assertEqual(second.finish(), 0)
        self.code(0, "run", "-n", "k", "true")
        self.assertEqual(self.shown("k")["holders"], [])

    def test_permits(self):
        first = self.hold("k", "-p", "2", "--owner", "first")
        seen = self.code(0, "run", "-n", "-p", "2", "-c", "echo $LOCKER_SLOT", "k").stdout
        self.assertEqual(seen, "1\n")
        second = self.hold("k", "-p", "2", "--owner", "second")
        self.assertIn("'k'", self.code(75, "run", "-n", "-v", "-p", "2", "k", "true").stderr)
        self.wrong(78, "2 permits", "run", "-n", "-p", "3", "k", "true")
        self.wrong(78, "2 permits", "run", "-n", "k", "true")
        seen = self.shown("k")
        self.assertEqual((seen["permits"], [h["slot"] for h in seen["holders"]]), (2, [0, 1]))
        self.assertIn("k: held, 2 of 2 permits taken\n", self.code(0, "show", "k").stdout)
        self.assertEqual(first.finish(), 0)
        self.assertEqual(second.finish(), 0)
        self.code(0, "run", "-n", "-p", "3", "k", "true")

    def test_break_takes_one_of_several(self):
        self.hold("k", "-s", "--owner", "first", "--on-lost", "ignore")
        self.hold("k", "-s", "--owner", "second", "--on-lost", "ignore")
        self.wrong(75, "2 others hold it", "break", "--owner", "third", "k")
        text = self.code(0, "break", "--owner", "first", "k").stdout
        self.assertIn("broke the lock of first", text)
        self.assertEqual([h["owner"] for h in self.shown("k")["holders"]], ["second"])
        self.code(0, "break", "k")
        self.assertFalse(self.shown("k")["held"])

    def test_several_keys(self):
        script = 'echo "$LOCKER_KEY $LOCKER_TOKEN"; echo "$LOCKER_TOKENS"'
        lines = self.code(0, "run", "--also", "b", "--also", "a", "-c", script, "c").stdout.splitlines()
        tokens = dict(reversed(line.split(" ")) for line in lines[1:])
        self.assertEqual(list(tokens), ["a", "b", "c"])
        self.assertEqual(lines[0], "c " + tokens["c"])
        held = self.hold("b")
        self.assertIn("'b'", self.code(75, "run", "-n", "-v", "--also", "b", "a", "true").stderr)
        self.code(0, "run", "-n", "a", "true")
        self.assertEqual(held.finish(), 0)

    def test_a_nested_run_for_one_of_several_is_refused(self):
        locker = os.environ["LOCKER_BIN"]
        nested = self.locker("run", "--also", "b", "a", locker, "run", "-n", "--also", "c", "b", "true")
        self.assertEqual(nested.returncode, 64)
        self.assertIn("already holds 'b'", nested.stderr)

    def test_wrong_options(self):
        self.wrong(64, "--permits", "run", "-p", "0", "k", "true")
        self.wrong(64, "--permits", "run", "-p", "1048577", "k", "true")
        self.wrong(64, "exclude each other", "run", "-s", "-p", "2", "k", "true")
        self.wrong(64, "", "run", "--also", "", "k", "true")
        many = [word for i in range(64) for word in ("--also", "k%d" % i)]
        self.wrong(64, "64 keys", "run", *many, "k", "true")


if __name__ == "__main__":
    unittest.main()
