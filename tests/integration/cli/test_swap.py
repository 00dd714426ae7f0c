"""The lock service is swapped by configuration: examples/counter.c and examples/count.sh run on each of them,
with nothing changed but the profile of one file (examples/locker.conf), or the URI."""
import os
import re
import subprocess
import unittest

from clitest import LIMIT, LOCKER, Case, Redis, ZooKeeper

COUNTER = os.environ["COUNTER"]
EXAMPLES = os.environ["EXAMPLES"]
PROCESSES = 3
TIMES = {"program": 40, "script": 4}


class Swap(Case):
    @classmethod
    def setUpClass(cls):
        cls.redis = Redis()
        cls.addClassCleanup(cls.redis.remove)
        cls.zookeeper = ZooKeeper()
        cls.addClassCleanup(cls.zookeeper.remove)

    def setUp(self):
        super().setUp()
        del self.env["LOCKER_URI"]
        self.env["PATH"] = os.path.dirname(LOCKER) + ":" + os.environ["PATH"]
        self.number = os.path.join(self.directory, "number")

    def profiles(self):
        """examples/locker.conf as it is, but for where this test's servers and directory are."""
        with open(os.path.join(EXAMPLES, "locker.conf"), encoding="utf-8") as file:
            sections = re.split(r"(?m)^(?=\[)", file.read())
        changes = {"[host]": (r"(?m)^path = .*", "path = " + self.directory + "/locks"),
                   "[network]": (r"(?m)^port = .*", "port = %d" % self.redis.port),
                   "[quorum]": (r"(?m)^port = .*", "port = %d" % self.zookeeper.port)}
        for i, section in enumerate(sections):
            pattern, text = changes.get(section.split("\n", 1)[0], (None, None))
            if pattern:
                sections[i], count = re.subn(pattern, text, section)
                self.assertEqual(count, 1, section)
        path = os.path.join(self.directory, "locker.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(sections))
        return path

    def count(self, processes, **environment):
        """Processes of both kinds increment one number at once; it must come out right."""
        env = dict(self.env, **environment)
        commands = [[COUNTER, self.number, str(TIMES["program"]), "swap"]]
        if processes > 1:
            commands.append([os.path.join(EXAMPLES, "count.sh"), self.number, str(TIMES["script"]), "swap"])
        with open(self.number, "w", encoding="ascii") as file:
            file.write("0\n")
        running = [subprocess.Popen(command, env=env) for command in commands for _ in range(processes)]
        self.assertEqual([process.wait(LIMIT) for process in running], [0] * len(running), environment)
        with open(self.number, encoding="ascii") as file:
            wanted = TIMES["program"] + (TIMES["script"] if processes > 1 else 0)
            self.assertEqual(int(file.read()), processes * wanted, environment)

    def test_by_profile(self):
        path = self.profiles()
        for profile, processes in (("default", 1), ("host", PROCESSES), ("network", PROCESSES),
                                   ("quorum", PROCESSES)):
            self.count(processes, LOCKER_CONFIG=path, LOCKER_PROFILE=profile)

    def test_by_uri(self):
        for uri, processes in (("memory:", 1), ("file://" + self.directory + "/locks", PROCESSES),
                               (self.redis.uri, PROCESSES), (self.zookeeper.uri, PROCESSES)):
            self.count(processes, LOCKER_URI=uri)


if __name__ == "__main__":
    unittest.main()
