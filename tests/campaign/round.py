"""One round of a campaign: workers on a service, faults by a plan, all healed, and then judged by the histories, by what
is left at the service, and by how soon each key can be had again."""
import contextlib
import json
import math
import os
import select
import signal
import subprocess
import threading
import time

import plan as plans
from services import NoService, die_with_us

QUIET_S = 15  # a call's own limits are far below that
SETTLE_S = 0.8  # after the healing, before the workers are told to end
SLOW_S = 0.2  # a machine that wakes sleepers later than this does not keep an ensemble's servers together

# What a fault may break, by the documents (docs/data/reliability-campaigns.md): these findings don't count against a round.
EXCUSED = {
    "flushall": {"overlap", "truth"},
    "restart-empty": {"overlap", "truth"},
    "restart-empty of zookeeper": {"overlap", "truth", "tokens"},
    "restart-empty of etcd": {"overlap", "truth", "tokens"},
    "break": {"overlap", "truth", "tokens"},
    "failover": {"overlap", "truth"},
    "clock": {"truth"},  # and as much of overlap as it has gained
}


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Worker:
    """A process of a round. With `library`, a folder with another version's liblocker, it runs that version."""

    def __init__(self, tools, directory, name, arguments, library=None):
        self.name, self.history, self.library = name, os.path.join(directory, name + ".jsonl"), library
        self.killed = self.stopped = False
        environment = dict(os.environ, LD_LIBRARY_PATH=library) if library else None
        self.errors = os.path.join(directory, name + ".err")
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen([tools["worker"], *arguments(self)], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=errors, preexec_fn=die_with_us,
                                            env=environment)

    def says(self, limit):
        """The next line; None: it didn't come in time, or at all."""
        ready = select.poll()
        ready.register(self.process.stdout, select.POLLIN)
        if not ready.poll(1000 * limit):
            return None
        return self.process.stdout.readline().decode().strip() or None

    def runs_its_version(self):
        """True if the process has mapped the liblocker that it was given."""
        with open("/proc/%d/maps" % self.process.pid, encoding="utf-8") as maps:
            paths = {line.split()[-1] for line in maps if "/liblocker.so" in line}
        return not self.library or paths and all(os.path.dirname(path) == os.path.realpath(self.library) for path in paths)

    def grants(self):
        with open(self.history, encoding="utf-8") as lines:
            return sum('"token"' in line and '"phase":"ok"' in line.replace(" ", "") for line in lines)

    def end(self, limit):
        try:
            self.process.stdin.close()
            return self.process.wait(limit)
        except (subprocess.TimeoutExpired, OSError):
            return None

    def last_words(self):
        with open(self.errors, encoding="utf-8", errors="replace") as errors:
            return (errors.read().strip().splitlines() or [""])[-1]

    def kill(self, history):
        sent = now_ns()
        self.process.kill()
        self.process.wait()
        history.write("end", "info", process=self.process.pid, sent=sent)
        self.killed = True


class Lines:
    """The lane's own file of the history: faults, and the ends of those that it killed."""

    def __init__(self, path):
        self.path = path
        self.file = open(path, "a", encoding="utf-8", buffering=1)

    def write(self, op, phase, process=None, **fields):
        line = dict(t=now_ns(), process=process or os.getpid(), op=op, phase=phase, **fields)
        self.file.write(json.dumps(line) + "\n")


class Canary:
    """How late the machine wakes those who sleep, at the worst."""

    def __init__(self):
        self.late_s, self.ends = 0.0, threading.Event()
        self.thread = threading.Thread(target=self.sing, daemon=True)
        self.thread.start()

    def sing(self):
        ends = False
        while not ends:
            began = time.monotonic()
            ends = self.ends.wait(0.02)
            self.late_s = max(self.late_s, time.monotonic() - began - 0.02)

    def end(self):
        self.ends.set()
        self.thread.join()


class Round:
    def __init__(self, tools, service, plan, directory):
        self.tools, self.service, self.plan, self.directory = tools, service, plan, directory
        self.space = "r%d" % plan["seed"]
        self.reasons, self.unjudged, self.exceptions = [], [], {}
        self.gained_before_us = getattr(service, "gained_us", 0)
        self.canary = Canary()
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, "plan.json"), "w", encoding="ascii") as file:
            json.dump(plan, file, indent=1)
        self.lines = Lines(os.path.join(directory, "faults.jsonl"))
        self.workers = []

    # ---- workers

    def start(self, name, number):
        process = self.plan["processes"][number]
        pin = {"pinned": process["pinned"]} if self.plan["driver"] in plans.PINNED else {}
        uri = self.service.uri(self.space, True, **pin)
        self.workers.append(Worker(self.tools, self.directory, name, lambda worker: [
            "work", uri, worker.history, name, str(self.plan["seed"] * 16 + len(self.workers)),
            str(process["threads"]), self.plan["kinds"], str(int(self.plan["breaks"]))], self.library(number)))

    def library(self, number):
        """Every second process runs the version that tools["beside"] names, if one does."""
        return self.tools.get("beside") if number % 2 == 1 else None

    def start_all(self):
        for i in range(len(self.plan["processes"])):
            self.start("worker-%d" % i, i)
        for worker in self.workers:
            if worker.says(20) != "works":
                self.came_late("a worker does not begin; see " + worker.errors)
                return False
            if not worker.runs_its_version():
                self.reasons.append("%s does not run the liblocker of %s" % (worker.name, worker.library))
                return False
        return True

    def came_late(self, text):
        """Held against ours only where the machine was not too slow for the service's own servers."""
        slow_s = self.canary.late_s
        if slow_s > SLOW_S:
            self.unjudged.append("%s; but the machine was too slow, sleepers woke up to %d ms late" % (text, 1000 * slow_s))
        else:
            self.reasons.append(text)

    def target(self, fault):
        alive = [worker for worker in self.workers if not worker.killed]
        return alive[fault["target"] % len(alive)] if alive else None

    # ---- faults: each begins, and ends by the function that is returned

    def begin(self, fault):
        kind = fault["kind"]
        if kind.startswith("worker-"):
            return self.harm_worker(kind, fault)
        if kind in ("flushall", "memory-full"):
            return self.harm_redis(kind)
        if kind in ("no-room", "compact"):
            return self.harm_etcd(kind)
        if kind in ("server-stop", "server-kill", "restart-empty") or kind.split("-")[0] in ("leader", "follower"):
            return self.harm_server(kind, fault)
        if kind in ("master-stop", "master-kill", "failover", "takeover"):
            return self.harm_master(kind, fault)
        if kind.startswith("slot-"):
            return self.move_slot(kind, fault)
        if kind.startswith("clock-"):
            return self.harm_clock(kind, fault)
        if kind == "clients-cut":
            self.service.cut(fault["target"] % 3, [self.service.hub])
            return self.service.heal_network
        return self.harm_network(kind, fault, self.service.proxies[fault["target"] % len(self.service.proxies)])

    def harm_worker(self, kind, fault):
        worker = self.target(fault)
        if worker is None:
            return None
        if kind == "worker-kill":
            worker.kill(self.lines)
            return None
        worker.process.send_signal(signal.SIGSTOP)
        return lambda: worker.killed or worker.process.send_signal(signal.SIGCONT)

    def harm_redis(self, kind):
        server = self.service.servers[0]
        try:
            if kind == "flushall":
                with self.forgetting(kind):
                    server.ask("FLUSHALL")
                return None
            server.ask("CONFIG", "SET", "maxmemory", "1")
        except OSError:
            return None
        return lambda: server.ask("CONFIG", "SET", "maxmemory", "0")

    def harm_clock(self, kind, fault):
        """The server ends leases by it: so much longer may two hold a lock at most."""
        self.exceptions["clock"] = (now_ns(), now_ns())
        if kind == "clock-step":
            self.service.gain(4 * fault["size"])
            return None
        return self.service.slew()

    def harm_etcd(self, kind):
        """As if the quota were used up: nothing new is written until the alarm ends. Or old revisions are forgotten."""
        try:
            if kind == "compact":
                self.service.compact()
                return None
            self.service.alarm("ACTIVATE")
        except OSError:
            return None
        return lambda: self.service.alarm("DEACTIVATE")

    def harm_server(self, kind, fault):
        member, servers = 0, self.service.servers
        if len(servers) > 1:
            leader = self.service.leader()
            member = leader if kind.startswith("leader") else (leader + 1 + fault["target"] % 2) % 3
        server, what = servers[member], kind.split("-")[1]
        if what == "stop" and server.process:
            server.freeze()
            return server.thaw
        if what in ("cut", "deaf", "mute"):
            ways = {"cut": ("INPUT", "OUTPUT"), "deaf": ("INPUT",), "mute": ("OUTPUT",)}[what]
            self.service.cut(member, self.service.peers(member), ways)
            return self.service.heal_network
        server.kill()
        if what == "empty":
            with self.forgetting(kind):
                server.forget()
        return server.heal

    def harm_master(self, kind, fault):
        """What is done to a master may end in a failover, and that in a lock that its replica did not have."""
        cluster = self.service.cluster
        masters = cluster.masters()
        if not masters:
            return None
        master = masters[fault["target"] % len(masters)]
        if kind == "master-stop":
            master.freeze()
            return master.thaw
        if kind == "master-kill":
            master.kill()
            return master.heal
        replica = cluster.replica_of(master)
        if replica is not None:
            replica.ask("CLUSTER", "FAILOVER", *(["TAKEOVER"] if kind == "takeover" else []))
        return None

    def move_slot(self, kind, fault):
        """The slot of one of the locks; some of its keys stay where they were for as long as the fault lasts."""
        self.service.begin_move("%s:key/%d" % (self.space, fault["target"] % len(self.plan["kinds"])), fault["target"])
        if kind == "slot-move":
            self.service.end_moves()
            return None
        return self.service.end_moves

    @contextlib.contextmanager
    def watching_roles(self):
        """Whether a replica has become a master meanwhile."""
        cluster = getattr(self.service, "cluster", None)
        before, began = cluster.roles() if cluster else None, now_ns()
        yield
        if cluster and cluster.roles() != before:
            self.exceptions["failover"] = (began, now_ns())

    @contextlib.contextmanager
    def forgetting(self, kind):
        began = now_ns()
        yield
        self.exceptions[kind] = (began, now_ns())

    @staticmethod
    def harm_network(kind, fault, proxy):
        def set_both(what, value):
            what["up"] = what["down"] = value
        if kind == "cut":
            proxy.cut_all()
            return None
        if kind == "delay":
            set_both(proxy.delay, fault["size"])
            return lambda: set_both(proxy.delay, 0.0)
        if kind.startswith("hold-"):
            way = "up" if kind == "hold-requests" else "down"
            proxy.hold[way] = True
            return lambda: proxy.hold.update({way: False})
        if kind == "late":
            proxy.make_late()
            return proxy.late.clear
        name = {"cut-reply": "cut_in_the_middle", "refuse": "refuse", "trickle": "trickle"}[kind]
        setattr(proxy, name, 1 + fault["target"] % 3 if kind == "cut-reply" else True)
        return lambda: setattr(proxy, name, 0)

    # ---- a round

    @staticmethod
    def rest_until(at):
        time.sleep(max(0.0, at - time.monotonic()))

    def rage(self):
        began = time.monotonic()
        agenda = [(fault["at"], i, None) for i, fault in enumerate(self.plan["faults"])]
        while agenda and agenda[0][0] < self.plan["seconds"]:
            at, i, end = agenda.pop(0)
            fault = self.plan["faults"][i]
            self.rest_until(began + at)
            if end is None:
                self.lines.write("fault", "begin", kind=fault["kind"])
                end = self.begin(fault)
                if end is not None:
                    agenda = sorted(agenda + [(at + fault["for"], i, end)], key=lambda one: one[:2])
            else:
                self.do_end(end)
                self.lines.write("fault", "end", kind=fault["kind"])
        self.rest_until(began + self.plan["seconds"])

    @staticmethod
    def do_end(end):
        try:
            end()
        except OSError:
            pass  # the service is down by another fault; all is healed in the end

    def heal(self):
        self.service.heal()
        for worker in self.workers:
            if not worker.killed:
                worker.process.send_signal(signal.SIGCONT)
        self.rest_until(time.monotonic() + SETTLE_S)

    def quieten(self):
        alive = [worker for worker in self.workers if not worker.killed]
        for worker in alive:
            try:
                worker.process.stdin.write(b"quiet\n")
                worker.process.stdin.flush()
            except OSError:
                pass
        for worker in alive:
            if worker.says(QUIET_S) != "quiet":
                self.came_late("%s did not end its calls in %d s, or crashed" % (worker.name, QUIET_S))
                self.keep_stacks(worker)

    def keep_stacks(self, worker):
        with open(os.path.join(self.directory, worker.name + ".stacks"), "wb") as file:
            subprocess.run(["gdb", "-p", str(worker.process.pid), "-batch", "-ex", "thread apply all bt"],
                           stdout=file, stderr=file, stdin=subprocess.DEVNULL, check=False) \
                if os.path.exists("/usr/bin/gdb") else None

    def look(self):
        """Those that worked are still there and do nothing; so each key can be had, but for the leases of the killed."""
        bound = self.service.bound_s + 2 * self.canary.late_s
        looker = Worker(self.tools, self.directory, "looker", lambda worker: [
            "look", self.service.uri(self.space, False), worker.history, "looker", self.plan["kinds"],
            str(int(self.plan["breaks"])), str(int(1000 * bound))], self.library(self.plan["seed"]))
        answer = looker.says((len(self.plan["kinds"]) + 1) * (3 * bound + 3))
        code = looker.end(20)
        if code != 0 or answer is None:
            looker.process.kill()
            self.reasons.append("who looks in the end ended with %s: %s" % (code, looker.last_words()))
        if answer is None:
            return {}
        keys = json.loads(answer)
        for key, seen in keys.items():
            if seen["status"] != "ok":
                self.came_late("%s can't be had within %.1f s after all was healed: %s after %.1f s, then %s" %
                               (key, bound, seen["status"], seen["ms"] / 1000, seen["then"]))
            elif seen["held"] or seen["waiters"] > 0:
                self.reasons.append("left at the service: %s, held %s, waiters %d" %
                                    (key, seen["held"], seen["waiters"]))
        return keys

    def end_all(self):
        for worker in self.workers:
            if worker.killed:
                continue
            code = worker.end(QUIET_S)
            if code != 0:
                self.reasons.append("%s ended with %s: %s" % (worker.name, code, worker.last_words()))
                worker.process.kill()
                worker.process.wait()
        self.reasons += ["without an end at the service: " + key for key in self.service.left_behind(self.space)]

    # ---- the judgement

    def check_histories(self):
        files = [worker.history for worker in self.workers] + [self.lines.path]
        looker = os.path.join(self.directory, "looker.jsonl")
        files += [looker] if os.path.exists(looker) else []
        gained_ms = (getattr(self.service, "gained_us", 0) - self.gained_before_us) / 1000
        limits = ["--promise", "overlap=%dms" % math.ceil(gained_ms)] if gained_ms > 0 else []
        done = subprocess.run([self.tools["locker"], "check-history", "--json", *limits, *files], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
        if done.returncode not in (0, 1):
            self.reasons.append("the histories can't be judged: " + done.stderr.decode().strip())
            return {}
        with open(os.path.join(self.directory, "report.json"), "wb") as file:
            file.write(done.stdout)
        report = json.loads(done.stdout)
        for finding in report["findings"]:
            if report["checks"][finding["check"]]["result"] == "broken":
                self.weigh(finding)
        return report

    @staticmethod
    def grant(place):
        """The lines of a history about the same handle as this one: its token, when it was asked for, when it came back."""
        with open(place["file"], encoding="utf-8") as file:
            lines = [json.loads(line) for line in file if line.endswith("}\n")]
        about = lines[place["line"] - 1].get("handle")
        lines = [line for line in lines if line.get("handle") == about]
        granted = next((line for line in lines if "token" in line), {"token": 0, "t": 0})
        return granted["token"], lines[0]["t"], granted["t"]

    def was_broken_on_its_way(self, finding):
        """The other grant is older, and came back late: it says nothing about an unlock."""
        return finding["check"] == "release" and self.grant(finding["second"])[0] < self.grant(finding["first"])[0]

    def was_forgotten_on_its_way(self, finding, fault):
        """The older grant was asked for before the service forgot it, and came back after a later one."""
        if finding["check"] not in ("release", "tokens") or finding["second"] is None:
            return False
        _, asked, came = min(self.grant(finding["first"]), self.grant(finding["second"]))
        return asked < fault[1] and came > fault[0]

    def excuse(self, finding):
        """The name of the fault that may break this; None: it is a breach."""
        if finding["key"] == "broken" and (finding["check"] in EXCUSED["break"] or
                                           self.was_broken_on_its_way(finding)):
            return "break"
        for kind, fault in self.exceptions.items():
            special = kind + " of " + self.plan["setup"]
            name = special if special in EXCUSED else kind
            if finding["check"] in EXCUSED[name] or self.was_forgotten_on_its_way(finding, fault):
                return kind
        return None

    def weigh(self, finding):
        excuse = self.excuse(finding)
        if excuse:
            self.excused.append("%s: %s" % (excuse, finding["check"]))
        else:
            self.reasons.append("%s of %s: %s" % (finding["check"], finding["key"], finding["text"]))

    def play_all(self):
        with self.watching_roles():
            self.rage()
            self.heal()
        self.quieten()
        keys = self.look()
        self.end_all()
        return keys

    def shares(self):
        """Grants and processes of each version, where two versions ran."""
        if not self.tools.get("beside"):
            return {}
        old = [worker for worker in self.workers if worker.library]
        new = [worker for worker in self.workers if not worker.library]
        return {"shares": [[sum(worker.grants() for worker in side), len(side)] for side in (new, old)]}

    def play(self):
        """The ledger's line, without what the campaign adds."""
        self.excused = []
        began = time.monotonic()
        try:
            keys = self.play_all() if self.start_all() else {}
        except NoService as error:
            self.unjudged.append("not judged to its end: %s" % error)
            keys = {}
        except Exception as error:  # whatever it is, the next rounds go on  pylint: disable=broad-except
            self.reasons.append("the round itself failed: %s" % error)
            keys = {}
        finally:
            for worker in self.workers:
                if worker.process.poll() is None:
                    worker.kill(self.lines)
            self.canary.end()
        report = self.check_histories()
        return {**self.shares(), "driver": self.plan["driver"], "setup": self.plan["setup"], "seed": self.plan["seed"],
                "seconds": round(time.monotonic() - began, 1), "stall_ms": round(1000 * self.canary.late_s),
                "faults": [fault["kind"] for fault in self.plan["faults"]], "breaks": self.plan["breaks"],
                "grants": report.get("grants", 0), "calls": report.get("calls", 0), "lines": report.get("lines", 0),
                "first_grant_ms": [seen["ms"] for seen in keys.values()],
                "excused": {name: self.excused.count(name) for name in sorted(set(self.excused))},
                "exceptions": sorted(self.exceptions), "reasons": (self.reasons + self.unjudged)[:20],
                "verdict": "broken" if self.reasons else "unjudged" if self.unjudged else "excused" if self.excused else "kept"}
