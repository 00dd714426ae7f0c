"""Configuration files and passwords that others can read or change: a warning, or a refusal that says what to do."""
import os
import unittest

from clitest import Case, RedisCase
from told import report_skip

PASSWORD = "of-the-shop"
STRANGER = 65534


class Secrets(RedisCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        assert cls.redis.ask("CONFIG", "SET", "requirepass", PASSWORD) == "+OK"

    def setUp(self):
        super().setUp()
        del self.env["LOCKER_URI"]
        self.uri = "redis://127.0.0.1:%d/0" % self.redis.port

    def write(self, name, text, mode=0o600, user=None):
        path = os.path.join(self.directory, name)
        if os.path.lexists(path):
            os.unlink(path)
        with open(path, "wb") as file:
            file.write(text.encode())
        os.chmod(path, mode)
        if user is not None:
            os.chown(path, user, user)
        return path

    def folder(self, name, mode, user=None):
        path = os.path.join(self.directory, name)
        os.mkdir(path)
        os.chmod(path, mode)
        if user is not None:
            os.chown(path, user, user)
        return path

    def ways(self, path):
        """Both kinds of secret in a file at that path: a password_file, and a configuration file with a password."""
        beside = self.write("beside.conf", "[default]\nuri = %s\npassword_file = %s\n" % (self.uri, path))
        yield PASSWORD + "\n", ("-u", "%s?password_file=%s" % (self.uri, path))
        yield PASSWORD + "\n", ("-f", beside)
        yield "[default]\nuri = %s\npassword = %s\n" % (self.uri, PASSWORD), ("-f", path)

    def test_a_file_that_every_user_can_read_is_warned_of_once(self):
        path = os.path.join(self.directory, "secret")
        for text, service in self.ways(path):
            for mode, warned in ((0o600, 0), (0o640, 0), (0o660, 0), (0o644, 1), (0o604, 1)):
                with self.subTest("%s %o" % (service, mode)):
                    self.write("secret", text, mode)
                    for rest in (("ping",), ("ping", "-v"), ("show", "k"), ("run", "k", "true")):
                        said = self.code(0, rest[0], *service, *rest[1:]).stderr
                        self.assertEqual(said.count("every user of this machine can read"), warned, said)
                        self.assertEqual(said.count("locker: warning: "), warned, said)
                        if warned:
                            self.assertIn(path, said)
                            self.assertIn("run chmod o= on the file, and change the password", said)
                        self.assertNotIn(PASSWORD, said)
                    self.assertEqual(self.code(0, "ping", "-q", *service).stderr, "")

    def refused(self, words, *service, **more):
        done = self.wrong(78, words, "ping", *service, **more)
        self.assertNotIn(PASSWORD, done.stderr)

    def test_a_file_that_every_user_can_write_is_refused(self):
        path = os.path.join(self.directory, "secret")
        for text, service in self.ways(path):
            for mode in (0o602, 0o666, 0o622):
                with self.subTest("%s %o" % (service, mode)):
                    self.write("secret", text, mode)
                    self.refused("every user can write to it (run chmod o-w)", *service)

    def test_a_file_in_a_directory_that_every_user_can_write_is_refused(self):
        path = os.path.join(self.folder("open", 0o777), "secret")
        below = os.path.join(self.folder("open/below", 0o755), "secret")
        for place in (path, below):
            for text, service in self.ways(place):
                with self.subTest(service):
                    self.write(place, text)
                    self.refused("every user can write to a directory above it (run chmod o-w)", *service)
                    os.chmod(os.path.join(self.directory, "open"), 0o1777)
                    self.code(0, "ping", *service)
                    os.chmod(os.path.join(self.directory, "open"), 0o777)

    def test_a_file_of_another_user_in_a_directory_for_all_is_refused(self):
        if os.geteuid() != 0:
            return report_skip(self.id(), "only root can give a file to another user")
        shared = self.folder("shared", 0o1777)
        theirs = self.folder("shared/theirs", 0o755, STRANGER)
        path, words = os.path.join(shared, "secret"), "belongs to another user"
        for text, service in self.ways(path):
            with self.subTest("a file, %s" % (service,)):
                self.write(path, text, user=STRANGER)
                self.refused(words, *service)
            with self.subTest("a link, %s" % (service,)):
                os.unlink(path)
                os.symlink(self.write("ours", text), path)
                os.lchown(path, STRANGER, STRANGER)
                self.refused(words, *service)
            with self.subTest("a FIFO, %s" % (service,)):
                os.unlink(path)
                os.mkfifo(path, 0o600)
                os.chown(path, STRANGER, STRANGER)
                end = os.open(path, os.O_RDWR)
                os.write(end, text.encode())
                self.refused(words, *service)
                os.close(end)
        for between in ("/", "//", "/./"):
            path = theirs + between + "secret"
            for text, service in self.ways(path):
                with self.subTest("a link in a directory, %s" % (service,)):
                    if os.path.lexists(path):
                        os.unlink(path)
                    os.symlink(self.write("ours", text), path)
                    self.refused(words, *service)
        self.refused(words, "-f", "secret", cwd=theirs)

    def test_a_fifo_of_ones_own_is_read(self):
        """As <(...) of a shell is."""
        path = os.path.join(self.directory, "fifo")
        os.mkfifo(path, 0o600)
        for text, service in self.ways(path):
            writer = os.fork()
            if writer == 0:
                with open(path, "w") as file:
                    file.write(text)
                os._exit(0)
            self.code(0, "ping", *service)
            os.waitpid(writer, 0)


class Usual(Case):
    """The user's file."""

    def setUp(self):
        super().setUp()
        self.service = self.env.pop("LOCKER_URI")
        self.home = self.env["HOME"] = os.path.join(self.directory, "home")
        self.path = os.path.join(self.home, ".config/locker/locker.conf")
        os.makedirs(os.path.dirname(self.path))

    def write(self, path, text="[default]\nuri = %s\n"):
        with open(path, "wb") as file:
            file.write((text % self.service if "%s" in text else text).encode())
        return path

    def test_the_file_has_to_be_of_this_user(self):
        if os.geteuid() != 0:
            return report_skip(self.id(), "only root can give a file to another user")
        self.write(self.path)
        self.code(0, "ping")
        words = "belongs to user %d, not to user 0 or root; set HOME to this user's home directory" % STRANGER
        for name in (self.path, os.path.dirname(self.path), os.path.join(self.home, ".config"), self.home):
            with self.subTest(name):
                os.chown(name, STRANGER, STRANGER)
                self.wrong(78, words, "ping")
                os.chown(name, 0, 0)
        os.rename(self.path, self.path + ".real")
        os.symlink(self.path + ".real", self.path)
        self.code(0, "ping")
        os.lchown(self.path, STRANGER, STRANGER)
        self.wrong(78, words, "ping")

    def test_a_link_that_leads_nowhere_is_no_reason_to_use_another_service(self):
        os.symlink(os.path.join(self.directory, "none"), self.path)
        self.wrong(78, "No such file", "ping")
        self.wrong(78, "No such file", "ping", "--profile", "default")

    def test_a_file_that_is_no_text(self):
        for text in ("[default]\nuri = memory:\0\n", "\0\0\0\n", "[default]\nuri = %s\n\0x\n[other]\n"):
            with self.subTest(repr(text)):
                self.write(self.path, text)
                self.wrong(78, "the line has a NUL in it", "ping")
        self.write(self.path)
        with open(self.path, "wb") as file:
            file.write("[default]\nuri = memory:\n".encode("utf-16"))
        self.wrong(78, "the line has a NUL in it", "ping")
        self.wrong(78, "the line has a NUL in it", "ping", "-f", "/dev/zero")


if __name__ == "__main__":
    unittest.main()
