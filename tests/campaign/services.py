"""The services of a campaign: a Redis server, one ZooKeeper server or an ensemble of three in network namespaces, or a
directory. Each lane of a campaign has its own, for all of its rounds; a round has a namespace of its own there."""
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time

from proxy import Proxy

JARS = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"
START_S = 60
CLONE_NEWNET, PR_SET_PDEATHSIG = 0x40000000, 1
libc = ctypes.CDLL(None, use_errno=True)


class NoService(RuntimeError):
    """What was to be judged could not run: that says nothing for it, and nothing against it."""


def die_with_us():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def enter_a_network_of_our_own():
    """Why it can't be had, or None. For the calling thread and what it starts: call it first."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "iptables", "nsenter", "unshare"):
        if not shutil.which(program):
            return "%s is missing: install iproute2, iptables and util-linux" % program
    if libc.unshare(CLONE_NEWNET) != 0:
        return "the kernel gives no network namespace: " + os.strerror(ctypes.get_errno())
    return None if run("ip link set lo up") else "ip can't set up a network namespace"


def run(line, place=None):
    """A command, in a namespace that is named by a process in it."""
    words = (["nsenter", "-t", str(place), "-n"] if place else []) + line.split()
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False)
    return done.returncode == 0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A program that is killed, stopped and started again."""

    def __init__(self, directory, log):
        self.directory, self.log, self.process, self.stopped = directory, log, None, False
        os.makedirs(directory, exist_ok=True)

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            preexec_fn=die_with_us)
        self.stopped = False

    def stop(self):
        self.stopped = True
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        if self.stopped and self.process is not None:
            self.process.send_signal(signal.SIGCONT)
        self.stopped = False

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process, self.stopped = None, False

    def forget(self):
        """Its data; it has been killed."""
        shutil.rmtree(self.directory)
        os.makedirs(self.directory)

    def await_service(self):
        end = time.monotonic() + START_S
        while not self.serves():
            if self.process.poll() is not None or time.monotonic() > end:
                raise NoService("a server does not serve; see " + self.log)
            time.sleep(0.05)

    def heal(self):
        self.go_on()
        if self.process is None or self.process.poll() is not None:
            self.start()


class RedisServer(Server):
    host = "127.0.0.1"

    def __init__(self, directory, log):
        self.port = free_port()
        super().__init__(directory, log)

    def command(self):
        return ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.directory, "--save", "",
                "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"]

    def ask(self, *words):
        """The first line of the answer, or the elements of an array of strings."""
        request = "*%d\r\n" % len(words) + "".join("$%d\r\n%s\r\n" % (len(w), w) for w in words)
        with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
            connection.sendall(request.encode())
            stream = connection.makefile("rb")
            line = stream.readline().decode().rstrip()
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

    def __init__(self, directory, log, number=0, place=None):
        self.number, self.place = number, place
        self.host = "10.201.0.%d" % number if number else "127.0.0.1"
        self.port = 2181 if number else free_port()
        super().__init__(directory, log)
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
        words = ["java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-cp", JARS,
                 "org.apache.zookeeper.server.quorum.QuorumPeerMain", os.path.join(self.directory, "zoo.cfg")]
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


class Service:
    """What a lane has: servers, a proxy before each, and what is to be known of it."""
    proxies, servers = (), ()
    ttl_s, bound_s = 0.0, 3.0

    def begin(self):
        """All or none: who can't have it may try again."""
        try:
            for server in self.servers:
                server.start()
            for server in self.servers:
                server.await_service()
        except NoService:
            self.close()
            raise
        self.proxies = [Proxy(server.host, server.port) for server in self.servers]

    def heal_network(self):
        for proxy in self.proxies:
            proxy.heal()

    def heal(self):
        self.heal_network()
        for server in self.servers:
            server.heal()
        for server in self.servers:
            server.await_service()

    def left_behind(self, _space):
        return []

    def close(self):
        for server in self.servers:
            server.kill()


class Redis(Service):
    ttl_s, bound_s = 1.5, 5.5

    def __init__(self, directory):
        self.servers = [RedisServer(os.path.join(directory, "redis"), os.path.join(directory, "redis.log"))]
        self.begin()

    def uri(self, space, proxies):
        port = self.proxies[0].port if proxies else self.servers[0].port
        return "redis://127.0.0.1:%d/0?namespace=%s&ttl=1500ms&command_timeout=1s&connect_timeout=1s" % (port, space)

    def heal(self):
        super().heal()
        self.servers[0].ask("CONFIG", "SET", "maxmemory", "0")

    def left_behind(self, space):
        """Keys that would stay for ever."""
        keys = self.servers[0].ask("KEYS", "*%s*" % space)
        return [key for key in keys if self.servers[0].ask("PTTL", key) == ":-1"]


class ZooKeeper(Service):
    ttl_s, bound_s = 2.0, 7.5
    settings = "ttl=2s&command_timeout=1500ms&connect_timeout=2s"

    def __init__(self, directory):
        self.servers = [ZooServer(os.path.join(directory, "one"), os.path.join(directory, "one.log"))]
        self.begin()

    def uri(self, space, proxies, pinned=None):
        ends = [("127.0.0.1", proxy.port) for proxy in self.proxies] if proxies else \
            [(server.host, server.port) for server in self.servers]
        if pinned is not None:
            ends = [ends[pinned % len(ends)]]
        return "zookeeper://%s/?namespace=%s&%s" % (",".join("%s:%d" % end for end in ends), space, self.settings)

    def leader(self):
        for i, server in enumerate(self.servers):
            if server.role() == "leader":
                return i
        return 0


class Ensemble(ZooKeeper):
    """Each member in a namespace of its own, at a bridge in ours."""

    def __init__(self, directory):
        self.places = []
        run("ip link add bridge type bridge")
        run("ip address add 10.201.0.254/24 dev bridge")
        run("ip link set bridge up")
        for number in (1, 2, 3):
            self.join(number)
        self.servers = [ZooServer(os.path.join(directory, str(number)), os.path.join(directory, "%d.log" % number),
                                  number, self.places[number - 1].pid) for number in (1, 2, 3)]
        self.begin()

    def join(self, number):
        place = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 preexec_fn=die_with_us)
        place.stdin.write(b"\n")
        place.stdin.flush()
        place.stdout.readline()  # unshare has become cat
        self.places.append(place)
        good = (run("ip link add m%d type veth peer name eth0 netns %d" % (number, place.pid)) and
                run("ip link set m%d master bridge up" % number) and
                run("ip address add 10.201.0.%d/24 dev eth0" % number, place.pid) and
                run("ip link set eth0 up", place.pid) and run("ip link set lo up", place.pid))
        if not good:
            self.close()
            raise NoService("a member's network can't be set up")

    def cut(self, member, others, ways=("INPUT", "OUTPUT")):
        """Drop what comes from these addresses (INPUT), or goes there (OUTPUT)."""
        for other in others:
            for way in ways:
                run("iptables -A %s %s %s -j DROP" % (way, "-s" if way == "INPUT" else "-d", other),
                    self.places[member].pid)

    def peers(self, member):
        return [server.host for i, server in enumerate(self.servers) if i != member]

    def heal_network(self):
        super().heal_network()
        for place in self.places:
            run("iptables -F", place.pid)

    def close(self):
        super().close()
        for number, place in enumerate(self.places, 1):
            run("ip link delete m%d" % number)  # at once; the kernel takes its time with an ended namespace
            place.kill()
            place.wait()


class File(Service):
    bound_s = 3.0

    def __init__(self, directory):
        self.directory = directory

    def uri(self, space, proxies):
        return "file://%s/%s" % (self.directory, space)


def make(setup, directory):
    os.makedirs(directory, exist_ok=True)
    return {"redis": Redis, "zookeeper": ZooKeeper, "ensemble": Ensemble, "file": File}[setup](directory)
