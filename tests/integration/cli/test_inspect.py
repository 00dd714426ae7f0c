"""locker show, break, ping and drivers."""
import json
import time
import unittest

from clitest import Case


class Show(Case):
    def test_free(self):
        self.assertTrue(self.code(0, "show", "k").stdout.startswith("k: free\n"))
        seen = json.loads(self.code(0, "show", "--json", "k").stdout)
        self.assertEqual(seen, {"key": "k", "held": False, "owner": None, "since_unix_ms": None,
                                "remaining_ms": None, "token": None, "waiters": 0, "queue": [],
                                "mode": "exclusive", "permits": None, "holders": []})

    def test_held(self):
        before = time.time() * 1000
        holder = self.hold("k", "--owner", "me myself")
        text = self.code(0, "show", "k").stdout
        for expected in ("k: held\n", "me myself", "since:", "ago)", "token:"):
            self.assertIn(expected, text)
        seen = json.loads(self.code(0, "show", "--json", "k").stdout)
        self.assertTrue(seen["held"])
        self.assertEqual(seen["owner"], "me myself")
        self.assertLessEqual(before - 1000, seen["since_unix_ms"])
        self.assertLessEqual(seen["since_unix_ms"], time.time() * 1000 + 1000)
        self.assertIsNone(seen["remaining_ms"])
        token = seen["token"]
        self.assertEqual(holder.finish(), 0)
        seen = json.loads(self.code(0, "show", "--json", "k").stdout)
        self.assertEqual((seen["held"], seen["owner"], seen["token"]), (False, None, token))

    def owner(self, holder, key):
        owner = json.loads(self.code(0, "show", "--json", key).stdout)["owner"]
        self.assertEqual(holder.finish(), 0)
        return owner

    def test_the_default_label_names_host_process_and_command(self):
        for command, name in ((["cat"], "cat"), (["/bin/cat", "-"], "cat"), (["-c", "cat"], "sh")):
            holder = self.start("k", *command)
            holder.event("acquired")
            self.assertEqual(self.owner(holder, "k").split(":")[1:], [str(holder.pid), name])

    def test_a_label_that_is_configured_stays(self):
        self.env["LOCKER_URI"] = self.uri + "?owner=batch"
        self.assertEqual(self.owner(self.hold("k"), "k"), "batch")
        self.assertEqual(self.owner(self.hold("k", "--owner", "me"), "k"), "me")


class Break(Case):
    def test_nobody_holds_it(self):
        self.wrong(1, "'k'", "break", "k")
        self.assertEqual(self.code(1, "break", "-q", "k").stderr, "")

    def test_json(self):
        self.hold("k", "--owner", "me", "--on-lost", "ignore")
        broken = json.loads(self.code(0, "break", "--json", "k").stdout)
        self.assertEqual((broken["key"], broken["owner"]), ("k", "me"))

    def test_only_the_holder_that_was_named(self):
        self.hold("k", "--owner", "me", "--on-lost", "ignore")
        token = json.loads(self.code(0, "show", "--json", "k").stdout)["token"]
        self.wrong(75, "another holds it: me", "break", "--token", str(token - 1), "k")
        self.wrong(75, "another holds it: me", "break", "--owner", "you", "k")
        self.assertEqual(json.loads(self.code(0, "show", "--json", "k").stdout)["token"], token)
        for wrong in ("0", "-1", "1x", "99999999999999999999999"):
            self.wrong(64, "--token", "break", "--token=" + wrong, "k")
        self.code(0, "break", "--token", str(token), "--owner", "me", "k")

    def test_quiet(self):
        self.hold("k", "--on-lost", "ignore")
        self.assertEqual(self.code(0, "break", "-q", "k").stdout, "")


class Ping(Case):
    def test_text(self):
        self.assertRegex(self.code(0, "ping").stdout, 
                         r"^file://\S+ \(from LOCKER_URI\)\nfile: answered in \d+\.\d+ ms\n$")
        self.assertEqual(self.code(0, "ping", "-c", "3").stdout.count("answered"), 3)
        self.assertEqual(self.code(0, "ping", "-q", "-c", "3").stdout, "")

    def test_json(self):
        seen = json.loads(self.code(0, "ping", "--json", "--count=5").stdout)
        self.assertEqual((seen["backend"], seen["count"]), ("file", 5))
        self.assertLessEqual(seen["min_us"], seen["mean_us"])
        self.assertLessEqual(seen["mean_us"], seen["max_us"])


class Drivers(Case):
    def test_text(self):
        text = self.code(0, "drivers").stdout
        for expected in ("\nmemory\n", "file://", "holder dies", "command_timeout"):
            self.assertIn(expected, text)

    def test_one(self):
        text = self.code(0, "drivers").stdout
        blocks = text.rstrip("\n").split("\n\n")
        common = blocks.pop()
        self.assertGreaterEqual(len(blocks), 2)
        for block in blocks:
            name = block.split("\n")[0]
            one = "%s\n\n%s\n" % (block, common)
            self.assertEqual(self.code(0, "drivers", name).stdout, one)
            seen = json.loads(self.code(0, "drivers", "--json", name).stdout)["drivers"]
            self.assertEqual([driver["name"] for driver in seen], [name])
            for scheme in seen[0]["schemes"].split():
                self.assertEqual(self.code(0, "drivers", scheme).stdout, one)

    def test_there_is_no_such_driver(self):
        self.wrong(64, "there is no driver 'fil'; the drivers are ", "drivers", "fil")
        self.wrong(64, "'files'", "drivers", "files")
        self.wrong(64, "''", "drivers", "")
        self.wrong(64, "'memory'", "drivers", "file", "memory")

    def test_json(self):
        seen = json.loads(self.code(0, "drivers", "--json").stdout)
        drivers = {driver["name"]: driver for driver in seen["drivers"]}
        self.assertEqual(drivers["file"]["semantics"]["scope"], "host")
        self.assertFalse(drivers["file"]["semantics"]["leases"])
        self.assertEqual(drivers["memory"]["semantics"]["scope"], "process")
        for driver in drivers.values():
            self.assertTrue(driver["example"].startswith(driver["schemes"].split()[0]))
            for name in ("holder_dies", "holder_stalls", "cut_off", "service_restarts", "token", "cost"):
                self.assertTrue(driver["semantics"][name], name)
        self.assertIn("ttl", [parameter["name"] for parameter in seen["common_parameters"]])


if __name__ == "__main__":
    unittest.main()
