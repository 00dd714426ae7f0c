"""Which lock service is used: a flag, the environment, a file in the usual places, the embedded default."""
import os
import unittest

from clitest import Case
from told import report_skip


class Precedence(Case):
    def setUp(self):
        super().setUp()
        del self.env["LOCKER_URI"]

    def lock_directory(self, name):
        path = os.path.join(self.directory, name)
        return path, "file://" + path

    def config(self, path, **profiles):
        path = os.path.join(self.directory, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            for name, uri in profiles.items():
                file.write("[%s]\nuri = %s\n" % (name, uri))
        return path

    def used(self, expected, *options):
        """A lock taken with these options is seen in that directory, and only there."""
        self.code(0, "run", *options, "used", "true")
        made = [name for name in os.listdir(self.directory)
                if os.path.isdir(os.path.join(self.directory, name)) and not name.startswith(".")
                and any(entry.startswith("used") for entry in os.listdir(os.path.join(self.directory, name)))]
        self.assertEqual(made, [expected])
        for entry in os.listdir(os.path.join(self.directory, expected)):
            os.unlink(os.path.join(self.directory, expected, entry))

    def used_default(self, env=None):
        """The lock of the key that is made for this is seen in the directory of this user."""
        key = "test-%d-%s" % (os.getpid(), self.id())
        path = "/tmp/locker-%d" % os.geteuid()
        done = self.code(0, "run", "-v", key, "ls", path, env=env)
        names = [name for name in done.stdout.split("\n") if name.startswith(key)]
        self.assertEqual(len(names), 1, done.stdout)
        self.assertIn("file://%s (the embedded default)" % path, done.stderr)
        os.unlink(os.path.join(path, names[0]))

    def test_the_default_is_the_same_from_cron_and_a_login(self):
        key = "test-%d-%s" % (os.getpid(), self.id())
        login = dict(self.env, XDG_RUNTIME_DIR=self.directory, TMPDIR=self.directory, XDG_SESSION_ID="1")
        cron = {"PATH": os.environ["PATH"], "HOME": "/", "SHELL": "/bin/sh"}
        self.used_default(login)
        self.used_default(cron)
        self.used_default({})
        holder = self.hold(key, env=login)
        self.assertIn("is held by", self.code(75, "run", "-n", "-v", key, "true", env=cron).stderr)
        self.assertIn("is held by", self.code(75, "run", "-n", "-v", key, "true", env={}).stderr)
        holder.finish()
        self.code(0, "run", "-n", key, "true", env=cron)
        os.unlink("/tmp/locker-%d/%s.lock" % (os.geteuid(), key))

    def test_a_default_directory_that_is_not_ours_is_refused(self):
        if os.geteuid() != 0:
            return report_skip(self.id(), "only root can play another user")
        uid = 54000 + os.getpid() % 5000
        path = "/tmp/locker-%d" % uid
        self.addCleanup(lambda: os.unlink(path) if os.path.islink(path) else os.rmdir(path))
        os.mkdir(path)
        os.chown(path, uid + 1, uid + 1)
        program = self.everybodys()
        self.wrong(78, "belongs to user %d" % (uid + 1), "run", "k", "true", program=program, user=uid)
        os.rmdir(path)
        os.symlink("/var/tmp", path)
        self.wrong(78, "symbolic link", "run", "k", "true", program=program, user=uid)

    def test_order(self):
        flag, uri_of_flag = self.lock_directory("flag")
        _, uri_of_env = self.lock_directory("env")
        _, uri_of_file = self.lock_directory("usual")
        _, uri_of_config = self.lock_directory("config")
        _, uri_of_other = self.lock_directory("other")

        self.used_default()
        self.config(".config/locker/locker.conf", default=uri_of_file, other=uri_of_other)
        self.used("usual")
        self.used("other", "--profile", "other")
        self.env["LOCKER_PROFILE"] = "other"
        self.used("other")
        self.used("usual", "--profile", "default")
        del self.env["LOCKER_PROFILE"]
        config = self.config("named.conf", default=uri_of_config, other=uri_of_other)
        self.env["LOCKER_CONFIG"] = config
        self.used("config")
        self.used("other", "--profile", "other")
        self.env["LOCKER_URI"] = uri_of_env
        self.used("env")
        self.used("other", "--profile", "other")
        self.used("config", "-f", config)
        self.used("other", "-f", config, "--profile", "other")
        self.used("flag", "-u", uri_of_flag)
        self.assertTrue(os.path.isdir(flag))

    def test_xdg_config_home(self):
        _, uri = self.lock_directory("xdg")
        self.env["XDG_CONFIG_HOME"] = os.path.join(self.directory, ".xdg")
        self.config(".xdg/locker/locker.conf", default=uri)
        self.used("xdg")

    def test_wrong_profiles(self):
        config = self.config("c.conf", default=self.uri)
        self.wrong(78, "nosuch", "run", "--profile", "nosuch", "k", "true")
        self.wrong(78, "nosuch", "run", "-f", config, "--profile", "nosuch", "k", "true")
        self.env["LOCKER_PROFILE"] = "absent"
        self.wrong(78, "absent", "run", "k", "true")
        self.wrong(78, "absent", "run", "-f", config, "k", "true")
        del self.env["LOCKER_PROFILE"]
        with open(config, "w") as file:
            file.write("[default]\nuri = %s\nfrob = 1\n" % self.uri)
        self.wrong(78, "frob", "run", "-f", config, "k", "true")
        with open(config, "w") as file:
            file.write("[default\nuri\n")
        self.wrong(78, "c.conf", "run", "-f", config, "k", "true")

    def test_empty_variables_are_unset(self):
        self.env.update(LOCKER_URI="", LOCKER_CONFIG="", LOCKER_PROFILE="")
        self.used_default()


if __name__ == "__main__":
    unittest.main()
