"""What the command lists fits into 80 columns, with whole words and nothing left out."""
import json
import unicodedata
import unittest

from clitest import Case

WIDTH = 80
SUBCOMMANDS = ("run", "show", "break", "ping", "drivers", "check-history", "compare")


def columns(text):
    """How wide a terminal shows it."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def words(text):
    return " ".join(text.split())


class Width(Case):
    def listed(self, *arguments):
        """What it prints. A line is too long only if it is one word, behind a label: a path, say."""
        text = self.code(0, *arguments).stdout
        self.assertTrue(text.endswith("\n"))
        for line in text.splitlines():
            self.assertTrue(columns(line) <= WIDTH or len(line.split()) <= 2, "%s: %s" % (arguments, line))
            self.assertEqual(line.rstrip(), line)
        return text

    def test_help(self):
        general = self.listed("help")
        self.assertEqual(general, self.listed("--help"))
        for name in SUBCOMMANDS:
            self.assertIn("locker " + name, general)
            self.assertIn("Usage: locker " + name, self.listed("help", name))

    def test_each_subcommands_own_help(self):
        for name in SUBCOMMANDS:
            done = self.locker(name, "--help")
            if done.returncode == 69:
                self.assertIn("which is not installed", done.stderr)
            else:
                self.assertEqual(self.listed(name, "--help"), self.listed("help", name))

    def test_scenarios(self):
        if self.locker("compare", "--list").returncode != 69:
            self.assertIn("How many got the lock, and what is the number?", words(self.listed("compare", "--list")))

    def test_drivers(self):
        text = words(self.listed("drivers"))
        told = json.loads(self.code(0, "drivers", "--json").stdout)
        for driver in told["drivers"]:
            one = words(self.listed("drivers", driver["name"]))
            self.assertIn(one[:one.index(" parameters of every driver:")], text)
            for name in ("holder_dies", "holder_stalls", "cut_off", "service_restarts", "failover", "token", "cost"):
                self.assertIn(words(driver["semantics"][name]), one)
            for parameter in driver["parameters"] + told["common_parameters"]:
                self.assertIn(words("%(name)s %(kind)s %(help)s" % parameter), one)

    def test_a_key_that_several_hold(self):
        label = "a label of many words " * 5 + "ends here"
        holder = self.hold("k", "-p", "2", "--owner", label)
        self.assertIn("holder: %s, slot 0, since " % label, words(self.listed("show", "k")))
        self.assertEqual(holder.finish(), 0)
        self.hold("k", "--owner", label)
        self.assertIn("holder: %s since: " % label, words(self.listed("show", "k")))


if __name__ == "__main__":
    unittest.main()
