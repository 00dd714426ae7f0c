"""Real servers for what is written in Python, as testing/servers are for what is written in C: on a private port, in a
directory, killed, frozen and started again; they end with us."""
import base64
import ctypes
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

JARS = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"
START_S = 60
TRIES = 3
PORTS = range(12000, 32000)  # as those of testing/servers/port.c
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


class NoService(RuntimeError):
    """What was to be tested could not run: that says nothing for it, and nothing against it."""


def die_with_us():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port():
    """None of those that clients get by themselves: one of them could have it before the server does, or while that is down."""
    for port in random.sample(PORTS, 1000):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise NoService("there is no free port")


class Server:
    """A program that is killed, frozen and started again. Without a directory it has one of its own."""
    host = "127.0.0.1"
    environment = None  # ours

    def __init__(self, directory=None, log=None):
        self.directory = directory or tempfile.mkdtemp(prefix="locker-server-")
        self.log = log or os.path.join(self.directory, "log")
        self.process, self.frozen = None, False
        os.makedirs(self.directory, exist_ok=True)

    def start(self):
        with open(self.log, "ab") as log:
            try:
                self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                preexec_fn=die_with_us, env=self.environment)
            except FileNotFoundError as error:
                raise NoService("%s is missing: install the package %s" % (error.filename, self.package)) from error
        self.frozen = False

    def choose(self):
        """Another place for one that never served."""

    def begin(self):
        """Start it and wait until it serves, or leave nothing behind. One that ends may have lost its port to another."""
        for left in reversed(range(TRIES)):
            try:
                self.start()
                self.await_service()
                return
            except NoService:
                if not left or self.process is None or self.process.poll() is None:
                    self.remove()
                    raise
                self.choose()

    def freeze(self):
        self.frozen = True
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        if self.frozen and self.process is not None:
            self.process.send_signal(signal.SIGCONT)
        self.frozen = False

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process, self.frozen = None, False

    def forget(self):
        """Its data; it has been killed."""
        shutil.rmtree(self.directory)
        os.makedirs(self.directory)

    def remove(self):
        self.kill()
        shutil.rmtree(self.directory, True)

    def await_service(self):
        end = time.monotonic() + START_S
        while not self.serves():
            if self.process.poll() is not None or time.monotonic() > end:
                with open(self.log, encoding="utf-8", errors="replace") as log:
                    raise NoService("a server does not serve; the end of %s: %s" % (self.log, log.read()[-2000:]))
            time.sleep(0.02)  # nothing tells when a server begins to serve

    def heal(self):
        self.thaw()
        if self.process is None or self.process.poll() is not None:
            self.start()


def redis_server():
    """The program of testing/servers/redis.c."""
    alone = not shutil.which("redis-server") and shutil.which("valkey-server")
    return os.environ.get("LOCKER_TEST_REDIS_SERVER") or ("valkey-server" if alone else "redis-server")


class RedisServer(Server):
    package = redis_server()
    options = ["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"]

    def __init__(self, directory=None, log=None):
        super().__init__(directory, log)
        self.choose()

    def choose(self):
        self.port = free_port()
        self.uri = "redis://127.0.0.1:%d/0" % self.port

    def command(self):
        return [self.package, "--port", str(self.port), "--bind", self.host, "--dir", self.directory, "--save",
                ""] + self.options

    def ask(self, *words):
        """The first line of the answer, the text of a string, or the elements of an array of strings."""
        request = "*%d\r\n" % len(words) + "".join("$%d\r\n%s\r\n" % (len(w.encode()), w) for w in words)
        with socket.create_connection((self.host, self.port), 5) as connection:
            connection.sendall(request.encode())
            stream = connection.makefile("rb")
            line = stream.readline().decode().rstrip()
            if line.startswith("$") and line != "$-1":
                return stream.read(int(line[1:])).decode()
            if not line.startswith("*"):
                return line
            count = int(line[1:])
            return [stream.read(int(stream.readline()[1:]) + 2)[:-2].decode() for _ in range(count)]

    def serves(self):
        try:
            return self.ask("PING") == "+PONG"
        except OSError:
            return False


class ZooServer(Server):
    """One; or a member of an ensemble, at an address of its own in the namespace `place`."""
    package = "default-jre-headless"
    options = []

    def __init__(self, directory=None, log=None, number=0, place=None):
        super().__init__(directory, log)
        self.number, self.place = number, place
        self.host = "10.201.0.%d" % number if number else "127.0.0.1"
        if not os.path.exists(JARS.split(":", 1)[0]):
            raise NoService("ZooKeeper is missing: install the package zookeeper")
        self.choose()

    def choose(self):
        self.port = 2181 if self.number else free_port()
        self.uri = "zookeeper://%s:%d/shop" % (self.host, self.port)
        self.configure()

    def configure(self):
        text = ("tickTime=200\nminSessionTimeout=400\nmaxSessionTimeout=120000\ninitLimit=50\nsyncLimit=10\n"
                "admin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\nclientPortAddress=%s\n"
                "clientPort=%d\ndataDir=%s\n" % (self.host, self.port, self.directory))
        if self.number:
            text += "".join("server.%d=10.201.0.%d:2182:2183\n" % (i, i) for i in (1, 2, 3))
            with open(os.path.join(self.directory, "myid"), "w", encoding="ascii") as file:
                file.write("%d\n" % self.number)
        with open(os.path.join(self.directory, "zoo.cfg"), "w", encoding="ascii") as file:
            file.write(text)

    def command(self):
        words = ["java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"] + self.options + [
                     "-cp", JARS, "org.apache.zookeeper.server.quorum.QuorumPeerMain", os.path.join(self.directory, "zoo.cfg")]
        return (["nsenter", "-t", str(self.place), "-n"] if self.place else []) + words

    def forget(self):
        super().forget()
        self.configure()

    def role(self):
        try:
            with socket.create_connection((self.host, self.port), 1) as connection:
                connection.sendall(b"srvr")
                text = connection.makefile("rb").read().decode()
        except OSError:
            return ""
        at = text.find("Mode: ")
        return text[at + 6:].split()[0] if at >= 0 else ""

    def serves(self):
        return self.role() != ""


class EtcdServer(Server):
    """One; or a member of an ensemble, at an address of its own in the namespace `place`. It is asked by its gateway."""
    package = "etcd-server"

    def __init__(self, directory=None, log=None, number=0, place=None):
        super().__init__(directory, log)
        self.number, self.place = number, place
        self.host = self.address(number) if number else "127.0.0.1"
        self.choose()

    def choose(self):
        self.port, self.peer_port = (2379, 2380) if self.number else (free_port(), free_port())
        self.uri = "etcd://%s:%d/shop" % (self.host, self.port)

    @staticmethod
    def address(number):
        return "10.202.0.%d" % number

    def command(self):
        here, peer = "http://%s:%d" % (self.host, self.port), "http://%s:%d" % (self.host, self.peer_port)
        all_of_them = ",".join("m%d=http://%s:2380" % (i, self.address(i)) for i in (1, 2, 3)) if self.number else "m0=" + peer
        words = ["etcd", "--name", "m%d" % self.number, "--data-dir", os.path.join(self.directory, "data"), "--initial-cluster",
                 all_of_them, "--initial-advertise-peer-urls", peer, "--listen-peer-urls", peer, "--listen-client-urls", here,
                 "--advertise-client-urls", here, "--unsafe-no-fsync", "--logger", "zap", "--log-level", "warn"]
        if not self.number:
            words += ["--heartbeat-interval", "20", "--election-timeout", "200"]
        return (["nsenter", "-t", str(self.place), "-n"] if self.place else []) + words

    def get(self, path):
        return self.request("GET", path, None)

    def ask(self, path, **question):
        """What the gateway answers, as from JSON; OSError when it does not, or when it refuses."""
        return self.request("POST", "/v3/" + path, json.dumps(question))

    def request(self, method, path, body):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=3)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            text = answer.read().decode()
            if answer.status != 200:
                raise OSError("%s: %s" % (path, text))
            return json.loads(text)
        except (http.client.HTTPException, ValueError) as error:
            raise OSError("%s: %s" % (path, error)) from error
        finally:
            connection.close()

    def keys(self, prefix):
        """{name: what is told of it} of the keys that begin so."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        found = self.ask("kv/range", key=encode(prefix), range_end=encode(end))
        return {base64.b64decode(one["key"]).decode(): one for one in found.get("kvs", [])}

    def role(self):
        try:
            told = self.ask("maintenance/status")
        except OSError:
            return ""
        if "leader" not in told:
            return ""
        return "leader" if told["leader"] == told["header"]["member_id"] else "follower"

    def serves(self):
        try:
            return self.get("/health?exclude=NOSPACE")["health"] == "true"
        except OSError:
            return False


def encode(text):
    return base64.b64encode(text.encode()).decode()
