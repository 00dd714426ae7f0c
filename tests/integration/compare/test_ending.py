"""However locker compare ends, nothing that it started goes on, and nothing is left behind."""
import glob
import os
import select
import signal
import subprocess
import time
import unittest

from clitest import Lines, RedisServer
from comparetest import LIMIT, LOCKER, CompareCase


class Ending(CompareCase):
    def start(self, *arguments):
        """A run in a process group of its own, as a terminal's."""
        running = subprocess.Popen([LOCKER, "compare", "--quick"] + list(arguments), env=self.env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True, text=True)
        self.addCleanup(running.stdout.close)
        self.addCleanup(running.stderr.close)
        self.addCleanup(running.kill)
        return running, Lines(running.stderr.fileno())

    def await_line(self, lines, text):
        while text not in lines.next(LIMIT):
            pass

    def end_by(self, number, whole_group):
        running, lines = self.start("--spawn=redis,redis-replica,zookeeper", "-s", "crash")
        self.await_line(lines, "crash on zookeeper")
        running_now = [command for _, command in self.running()]
        self.assertEqual(sum(RedisServer.package in command for command in running_now), 3, running_now)
        self.assertEqual(sum(command.startswith("java ") for command in running_now), 1, running_now)
        (os.killpg if whole_group else os.kill)(running.pid, number)
        self.assertEqual(running.wait(LIMIT), -number)
        self.assert_all_goes()

    def test_control_c(self):
        self.end_by(signal.SIGINT, True)

    def test_term(self):
        self.end_by(signal.SIGTERM, False)

    def test_kill(self):
        self.end_by(signal.SIGKILL, False)

    def test_while_servers_start(self):
        running, lines = self.start("--spawn=zookeeper-ensemble", "-s", "crash")
        self.await_line(lines, "starting zookeeper-ensemble")
        running.send_signal(signal.SIGTERM)
        self.assertEqual(running.wait(LIMIT), -signal.SIGTERM)
        self.assert_all_goes()

    def await_grant(self):
        """Until the history of the cell that runs has a grant."""
        pattern, end = os.path.join(self.scratch, "*", "slow-work.redis.1"), time.monotonic() + LIMIT
        while time.monotonic() < end:
            for path in glob.glob(pattern):
                with open(path, encoding="utf-8") as file:
                    if '"op":"lock","phase":"ok"' in file.read():
                        return
            select.select([], [], [], 0.01)  # nobody tells of a line in a file
        self.fail("no grant in " + pattern)

    def test_a_machine_that_stands_still_breaks_no_promise(self):
        """A lease that ends because all processes were stopped says nothing of the service."""
        running, _ = self.start("--spawn=redis", "-s", "slow-work", "-q")
        self.await_grant()
        for number, seconds in ((signal.SIGSTOP, 1.5), (signal.SIGCONT, 0)):
            for process in sorted({running.pid} | {pid for pid, _ in self.running()}):
                os.kill(process, number)
            select.select([], [], [], seconds)  # longer than the lease
        told, _ = running.communicate(timeout=LIMIT)
        self.assertEqual(running.returncode, 0, told)
        self.assertRegex(" ".join(told.split()), r"redis not run .*the machine was too slow \(a thread woke [1-9][0-9]*\.[0-9]+ s")
        self.assert_all_goes()

    def test_while_a_network_is_cut(self):
        running, lines = self.start("--spawn=redis", "-s", "partition")
        self.await_line(lines, "partition on redis")
        running.kill()
        running.wait(LIMIT)
        self.assert_all_goes()


if __name__ == "__main__":
    unittest.main()
