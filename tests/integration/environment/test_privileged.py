"""A program with raised privileges does nothing that the environment says: its user chose that, and has fewer rights.

One program is installed five times: as it is, set-user-ID of root and of another user, set-group-ID, and with a file capability.
nobody starts it, in a mount namespace with /tmp and /etc of the test's own. What the plain one does shows that each variable
would have had its effect.
"""
import os
import pwd
import shutil
import socket
import ssl
import stat
import subprocess
import tempfile
import threading
import unittest

from clitest import LIMIT
from told import report_skip

PROGRAM = os.environ["PRIVILEGED"]
OTHER = 1  # a user and a group that is neither root's nor nobody's
NAMESPACE = """
mount --bind "$1/tmp" /tmp && mount --bind "$1/etc" /etc || exit 99
shift
exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all "$@"
"""
COPIED = ("passwd", "group", "nsswitch.conf", "hosts", "ld.so.cache")


class Listener:
    """A server of the user's own, which notes what it is sent. With a context it speaks TLS."""

    def __init__(self, context=None):
        self.seen, self.context = b"", context
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            with client:
                try:
                    client.settimeout(LIMIT)
                    if self.context:
                        with self.context.wrap_socket(client, server_side=True) as secure:
                            self.seen += secure.recv(65536)
                    else:
                        self.seen += client.recv(65536)
                except OSError:
                    pass

    def end(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(LIMIT)
        return self.seen


def installed(program, folder, name, uid=0, gid=0, mode=0o755):
    path = shutil.copy(program, os.path.join(folder, name))
    os.chown(path, uid, gid)
    os.chmod(path, mode)
    return path


class Surroundings(unittest.TestCase):
    program = PROGRAM

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="locker-privileged-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, self.directory, True)
        os.chmod(self.directory, 0o755)
        for name, mode in (("tmp", 0o1777), ("etc", 0o755), ("evil", 0o755)):
            os.mkdir(self.path(name))
            os.chmod(self.path(name), mode)
        os.chown(self.path("evil"), 65534, 65534)
        for name in COPIED:
            if os.path.exists(os.path.join("/etc", name)):
                shutil.copy(os.path.join("/etc", name), self.path("etc", name))
        self.env = {"PATH": os.environ["PATH"]}

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def write(self, text, *names, mode=0o644, uid=0):
        path = self.path(*names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        os.chown(path, uid, uid)
        return path

    def programs(self):
        """(name, path, uid whose default directory it has; None: it has none) of each with raised privileges."""
        if os.geteuid() != 0:
            report_skip(self.id(), "only root can make a program set-user-ID")
            return
        if os.statvfs(self.directory).f_flag & os.ST_NOSUID:
            report_skip(self.id(), "/var/tmp is mounted nosuid")
            return
        if not self.can_mount():
            report_skip(self.id(), "no mount namespace can be made here")
            return
        yield "set-user-ID root", installed(self.program, self.directory, "root", mode=0o4755), 0
        yield "set-user-ID", installed(self.program, self.directory, "other", uid=OTHER, mode=0o4755), OTHER
        yield "set-group-ID", installed(self.program, self.directory, "group", gid=OTHER, mode=0o2755), None
        path = installed(self.program, self.directory, "capable")
        if shutil.which("setcap") and subprocess.run(["setcap", "cap_net_bind_service+ep", path], check=False).returncode == 0:
            yield "capable", path, None
        else:
            report_skip(self.id(), "no file capability can be given here: setcap (libcap2-bin) is missing or refused")

    def can_mount(self):
        done = subprocess.run(["unshare", "--mount", "sh", "-c", 'mount --bind "$0/tmp" /tmp', self.directory],
                              stderr=subprocess.DEVNULL, check=False)
        return done.returncode == 0

    def run_as_nobody(self, path, *arguments, **variables):
        """The status, the service or what is wrong, and the origin."""
        done = subprocess.run(["unshare", "--mount", "sh", "-c", NAMESPACE, "sh", self.directory, path, *arguments],
                              env=dict(self.env, **variables), cwd=self.path("evil"), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        first, origin = done.stdout.splitlines()
        privileges, status, said = first.split("|", 2)
        self.assertEqual(privileges, "plain" if path.endswith("plain") else "secure")
        return status, said, origin

    def clean(self):
        for name in os.listdir(self.path("tmp")):
            shutil.rmtree(self.path("tmp", name))

    def is_default(self, path, uid, **variables):
        """It took its lock where it would have without the variables."""
        status, said, origin = self.run_as_nobody(path, **variables)
        if uid is None:
            self.assertEqual(status, "config", said)
            self.assertIn("name a service in /etc/locker.conf", said)
            self.assertEqual(os.listdir(self.path("tmp")), [])
        else:
            self.assertEqual((status, said, origin), ("ok", "file:///tmp/locker-%d" % uid, "the embedded default"))
            self.assertEqual(os.listdir(self.path("tmp")), ["locker-%d" % uid])
            there = os.stat(self.path("tmp", "locker-%d" % uid))
            self.assertEqual((there.st_uid, stat.S_IMODE(there.st_mode)), (uid, 0o700))
        self.assertEqual(os.listdir(self.path("evil")), ["home"])
        self.clean()

    def each(self):
        """Each program with raised privileges, after one without."""
        privileged = list(self.programs())
        if privileged:
            yield "plain", installed(self.program, self.directory, "plain"), 65534
        yield from privileged



class Privileged(Surroundings):
    def test_what_names_a_service(self):
        secret = self.write("root-only\n", "secret", mode=0o600)
        evil = self.path("evil")
        listener = Listener()
        aside = "file://%s/made?shared=yes" % evil
        thief = "redis://127.0.0.1:%d?password_file=%s" % (listener.port, secret)
        for name, path, uid in self.each():
            with self.subTest(name):
                if name == "plain":
                    status, said, origin = self.run_as_nobody(path, LOCKER_URI=aside)
                    self.assertEqual((status, origin), ("ok", "from LOCKER_URI"), said)
                    shutil.rmtree(self.path("evil", "made"))
                for place in ("xdg/locker", "home/.config/locker"):
                    self.write("[default]\nuri = %s\n" % aside, "evil/home", place, "locker.conf", uid=65534)
                config = self.write("[default]\nuri = %s\n" % thief, "evil/home/thief.conf", uid=65534)
                ways = ({"LOCKER_URI": aside}, {"LOCKER_URI": "memory:"}, {"LOCKER_URI": thief}, {"LOCKER_CONFIG": config},
                        {"XDG_CONFIG_HOME": evil + "/home/xdg"}, {"HOME": evil + "/home/home"}, {"TMPDIR": evil},
                        {"XDG_RUNTIME_DIR": evil}, {"LOCKER_PROFILE": "other"})
                for variables in ways:
                    if name != "plain":
                        self.is_default(path, uid, **variables)
                    elif "HOME" in str(variables):
                        self.assertEqual(self.run_as_nobody(path, **variables)[0], "ok")
                        shutil.rmtree(self.path("evil", "made"))
                self.is_default(path, uid)
        self.assertEqual(listener.end(), b"")

    def test_the_administrators_file(self):
        self.write("[default]\nuri = file://%s\n[other]\nuri = memory:\n" % self.path("kept"), "etc/locker.conf")
        for name, path, uid in self.each():
            with self.subTest(name):
                os.mkdir(self.path("kept"), 0o755)
                os.chown(self.path("kept"), 65534 if uid is None else uid, 0)
                variables = dict.fromkeys(("LOCKER_URI", "HOME", "LOCKER_CONFIG", "LOCKER_PROFILE"), "other")
                if name == "plain":
                    variables = {}
                    self.assertEqual(self.run_as_nobody(path, LOCKER_PROFILE="other")[1], "memory:")
                status, said, origin = self.run_as_nobody(path, **variables)
                self.assertEqual((status, said), ("ok", "file://" + self.path("kept")))
                self.assertEqual(origin, "from /etc/locker.conf, profile [default]")
                self.assertEqual(os.listdir(self.path("tmp")), [])
                shutil.rmtree(self.path("kept"))

    def test_the_profile_of_a_file_that_the_program_names(self):
        config = self.write("[default]\nuri = memory:a\n[other]\nuri = memory:b\n", "program.conf")
        for name, path, _ in self.each():
            with self.subTest(name):
                seen = self.run_as_nobody(path, "-", config, LOCKER_PROFILE="other")[1]
                self.assertEqual(seen, "memory:b" if name == "plain" else "memory:a")

    def test_a_password(self):
        for name, path, _ in self.each():
            with self.subTest(name):
                listener = Listener()
                self.run_as_nobody(path, "redis://127.0.0.1:%d" % listener.port, LOCKER_PASSWORD="of-the-user")
                self.assertEqual(b"of-the-user" in listener.end(), name == "plain")

    def test_a_relative_path(self):
        """The directory in which a program is started is its user's choice, too."""
        self.write("of-the-user\n", "evil/secret", mode=0o600, uid=65534)
        for name, path, _ in self.each():
            with self.subTest(name):
                listener = Listener()
                said = self.run_as_nobody(path, "redis://127.0.0.1:%d?password_file=secret" % listener.port)[1]
                self.assertEqual(b"of-the-user" in listener.end(), name == "plain")
                if name != "plain":
                    self.assertIn("give a path that begins with '/'", said)

    def test_authorities(self):
        """OpenSSL's own variables."""
        certificate, key = self.path("evil", "ca.pem"), self.path("key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=evil", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                       check=True, capture_output=True)
        os.chmod(certificate, 0o644)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        for name, path, _ in self.each():
            for variables in ({"SSL_CERT_FILE": certificate}, {"SSL_CERT_DIR": self.path("evil"), "SSL_CERT_FILE": certificate}):
                with self.subTest(name):
                    listener = Listener(context)
                    said = self.run_as_nobody(path, "rediss://127.0.0.1:%d" % listener.port, **variables)[1]
                    self.assertEqual(listener.end() != b"", name == "plain", said)

    def test_a_directory_that_is_there(self):
        """Of the user who started it: refused."""
        for name, path, uid in self.each():
            with self.subTest(name):
                if name != "plain" and uid is not None:
                    os.mkdir(self.path("tmp", "locker-%d" % uid))
                    os.chown(self.path("tmp", "locker-%d" % uid), 65534, 65534)
                    status, said, _ = self.run_as_nobody(path)
                    self.assertEqual(status, "config", said)
                    self.assertIn("belongs to user 65534", said)
                    self.clean()


class Login(Surroundings):
    program = os.environ.get("PRIVILEGED_SASL")

    def test_plugins(self):
        """Cyrus' library looks at its own variable unless the users differ, and so does not see a file capability."""
        if not self.program:
            report_skip(self.id(), "this build has no driver for ZooKeeper")
            return
        shutil.copy(os.environ["PLUGIN"], self.path("evil", "libevil.so"))
        for name, path, _ in self.each():
            with self.subTest(name):
                said = self.run_as_nobody(path, SASL_PATH=self.path("evil"))[1]
                self.assertEqual(os.path.exists(self.path("tmp", "loaded")), name == "plain", said)
                if name == "capable":
                    self.assertIn("cannot use SASL in a program with raised privileges", said)
                elif name == "plain":
                    os.remove(self.path("tmp", "loaded"))


if __name__ == "__main__":
    pwd.getpwuid(65534)
    unittest.main()
