"""locker run --no-fork: locker becomes the command, which inherits the lock."""
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

from clitest import LIMIT, LOCKER, Case
from servers import EtcdServer, RedisServer, ZooServer


class NoFork(Case):
    def hold_by_exec(self, key, *options, command=("cat",)):
        running = self.start("-F", *options, key, "--", *command)
        running.event("acquired")
        self.assertEqual(running.events(), [])  # the descriptor is closed: it has become the command
        return running

    def kill(self, running):
        running.process.kill()
        running.process.wait(LIMIT)

    def show(self, key):
        return json.loads(self.code(0, "show", "--json", key).stdout)

    def is_busy(self, key, *options):
        done = self.locker("run", "-n", *options, key, "true")
        self.assertIn(done.returncode, (0, 75), done.stderr)
        return done.returncode == 75

    def free_later(self, key):
        """The kernel closes the descriptors of a process in no time that a test could name."""
        self.code(0, "run", "-w", "%ds" % LIMIT, key, "true")


class Process(NoFork):
    def test_the_process_is_the_same(self):
        for options in ((), ("-s",), ("-p", "2"), ("--also", "l"), ("--foreground",)):
            with self.subTest(options=options):
                holder = self.start("-F", *options, "k", "--", "sh", "-c", "echo $$ $PPID $LOCKER_TOKEN; read line")
                pid, parent, token = map(int, holder.output.next().split())
                self.assertEqual((pid, parent), (holder.pid, os.getpid()))
                self.assertEqual(token, self.show("k")["token"])
                self.assertEqual(holder.finish(), 1)
                self.assertFalse(self.show("k")["held"])

    def test_what_systemd_passes_is_right(self):
        """LISTEN_PID names the command, its sockets stay, and READY=1 comes from the main process (Type=notify)."""
        place = os.path.join(self.directory, "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, open(os.devnull) as file:
            notify.bind(place)
            notify.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            notify.settimeout(LIMIT)
            service = ("import os, socket\n"
                       "assert os.environ['LISTEN_PID'] == str(os.getpid()), os.environ['LISTEN_PID']\n"
                       "assert os.fstat(3).st_rdev == os.stat(os.devnull).st_rdev\n"
                       "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'READY=1', os.environ['NOTIFY_SOCKET'])\n")
            started = subprocess.Popen(
                ["sh", "-c", 'exec 3<&%d; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"' % file.fileno(), "sh", LOCKER, "run", "-F", "k",
                 "--", sys.executable, "-c", service], env=dict(self.env, NOTIFY_SOCKET=place), pass_fds=[file.fileno()])
            self.assertEqual(started.wait(LIMIT), 0)
            text, more, _, _ = notify.recvmsg(64, 128)
            self.assertEqual((text, struct.unpack("3i", more[0][2])[0]), (b"READY=1", started.pid))

    def test_signals_are_as_they_were(self):
        script = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]
        plain = subprocess.run(script, stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual(self.code(0, "run", "-F", "k", *script).stdout, plain)

    def test_its_end_is_its_own(self):
        self.code(7, "run", "-F", "k", "sh", "-c", "exit 7")
        self.code(-signal.SIGTERM, "run", "-F", "k", "sh", "-c", "kill $$")
        self.wrong(127, "'no-such-program'", "run", "-F", "k", "no-such-program")
        self.wrong(126, self.directory, "run", "-F", "k", self.directory)
        self.assertFalse(self.show("k")["held"])


class Lock(NoFork):
    def test_held_until_the_command_ends(self):
        holder = self.hold_by_exec("k")
        shown = self.show("k")
        self.assertTrue(shown["held"])
        self.assertIn(":%d:cat" % holder.pid, shown["owner"])
        self.assertTrue(self.is_busy("k"))
        waiter = self.start("k", "--", "true")
        waiter.event("waiting")
        self.assertEqual(holder.finish(), 0)
        waiter.event("acquired")
        self.assertEqual(waiter.finish(), 0)

    def test_kill_frees_it(self):
        for options in ((), ("-s",), ("-p", "1")):
            with self.subTest(options=options):
                holder = self.hold_by_exec("k", *options)
                self.assertTrue(self.is_busy("k", *(("-p", "1") if "-p" in options else ())))
                self.kill(holder)
                self.free_later("k")

    def test_a_waiter_and_the_waiter_behind_it(self):
        first = self.hold("k")
        second = self.start("-F", "k", "--", "cat")
        second.event("waiting")  # it takes its place after that
        self.until(lambda: self.show("k")["waiters"] == 1, "the second should queue")
        third = self.start("k", "--", "cat")
        third.event("waiting")
        first.finish()
        second.event("acquired")
        self.assertEqual(second.events(), [])
        self.assertTrue(self.is_busy("k"))
        self.kill(second)
        third.event("acquired")
        self.assertEqual(third.finish(), 0)

    def test_readers_stay_known_after_exec(self):
        """Others come and go beside them, and clear away what the dead have left."""
        holders = [self.hold_by_exec("k", "-s") for _ in range(2)]
        for _ in range(40):
            self.code(0, "run", "-n", "-s", "k", "true")
        self.assertEqual(sorted(int(one["owner"].split(":")[1]) for one in self.show("k")["holders"]),
                         sorted(holder.pid for holder in holders))
        self.assertTrue(self.is_busy("k"))
        self.kill(holders[0])
        self.assertTrue(self.is_busy("k"))
        self.kill(holders[1])
        self.free_later("k")

    def test_permits_and_several_keys(self):
        holder = self.start("-F", "-p", "2", "--also", "l", "k", "--", "sh", "-c", "echo $LOCKER_SLOT; read line")
        self.assertEqual(holder.output.next(), "0")
        other = self.start("-F", "-p", "2", "--also", "l", "k", "--", "sh", "-c", "echo $LOCKER_SLOT; read line")
        self.assertEqual(other.output.next(), "1")
        for key in ("k", "l"):
            self.assertTrue(self.is_busy(key, "-p", "2"))
        self.kill(holder)
        for key in ("k", "l"):
            self.code(0, "run", "-w", "%ds" % LIMIT, "-p", "2", key, "true")

    def test_a_process_that_inherits_the_descriptor_keeps_the_lock(self):
        done = self.code(0, "run", "-F", "k", "sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!")
        daemon = int(done.stdout)
        self.assertTrue(self.is_busy("k"))
        os.kill(daemon, signal.SIGKILL)
        self.free_later("k")

    def test_closing_the_descriptor_releases_the_lock(self):
        holder = self.start("-F", "k", "--", sys.executable, "-c",
                            "import os, sys\nos.closerange(3, 4096)\nprint('closed', flush=True)\nsys.stdin.read()")
        self.assertEqual(holder.output.next(), "closed")
        self.free_later("k")
        self.assertEqual(holder.finish(), 0)

    def test_a_break_is_not_noticed(self):
        """The next holder has the lock, and the end of the first takes nothing from it."""
        for options in ((), ("-s",)):
            with self.subTest(options=options):
                holder = self.hold_by_exec("k", *options)
                self.code(0, "break", "k")
                follower = self.hold("k")
                self.assertIsNone(holder.process.poll())
                self.kill(holder)
                self.assertTrue(self.is_busy("k"))
                self.assertEqual(follower.finish(), 0)

    def test_cleaners_by_age_keep_the_lock_file(self):
        holder = self.hold_by_exec("k")
        file = os.stat(os.path.join(self.directory, "locks", "k.lock"))
        self.assertGreater(file.st_atime, time.time() + 9 * 365 * 86400)
        self.assertLess(file.st_mtime, time.time() + 86400)
        self.assertEqual(holder.finish(), 0)


class Refused(NoFork):
    def test_options_that_need_a_supervisor(self):
        for options in (["-k", "1s"], ["--on-lost=ignore"], ["--lost-exit-code=3"], ["--wait-descendants"]):
            name = {"-k": "--kill-after"}.get(options[0], options[0].split("=")[0])
            self.wrong(64, "--no-fork and %s exclude each other" % name, "run", "-F", *options, "k", "touch", self.directory + "/ran")
        self.assertFalse(os.path.exists(self.directory + "/ran"))

    def test_where_a_lock_does_not_live_in_a_descriptor(self):
        self.wrong(78, "memory:", "run", "-F", "-u", "memory:", "k", "true")

    def on(self, kind):
        if self.locker("drivers", kind.__name__.replace("Server", "").lower().replace("zoo", "zookeeper")).returncode != 0:
            return  # it is not built in
        server = kind()
        self.addCleanup(server.remove)
        server.begin()
        self.wrong(78, "nothing renews a lock after exec", "run", "-F", "-u", server.uri, "k", "true")
        shown = json.loads(self.code(0, "show", "--json", "-u", server.uri, "k").stdout)
        self.assertFalse(shown["held"] or shown["token"], shown)  # nothing was taken

    def test_redis(self):
        self.on(RedisServer)

    def test_zookeeper(self):
        self.on(ZooServer)

    def test_etcd(self):
        self.on(EtcdServer)


if __name__ == "__main__":
    unittest.main()
