"""Traces of the simulation, followed by the models (docs/simulation.md, models/README.md).

A trace's steps are put in order of time, and each claim gets one of the model's places. What an event means the model says;
here is only who takes it, and in which units."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import etcd_steps
import places
import planted
import program
import redis_steps
import zookeeper_steps

ROOT = Path(program.ROOT)
MODELS = ROOT / "models"
SEEDS_LEAST, SEEDS_MOST = 4, 60
PROJECTS = {"etcd": etcd_steps, "redis": redis_steps, "zookeeper": zookeeper_steps}


class Refused(Exception):
    pass


def listed(model, kind):
    """Names at the head of a model, in order."""
    return re.findall(rf"^ \* {kind} ([A-Z_]+):", (MODELS / f"{model}.pml").read_text(), re.MULTILINE)


class Follower:
    """A model that follows traces: Spin's program for it."""

    def __init__(self, model, folder):
        self.model, self.folder = model, folder
        self.events, self.bound = listed(model, "event"), listed(model, "step")
        self.steps = self.bound + listed(model, "unbound")
        defines = [f"-DEVENT_{name}={i}" for i, name in enumerate(self.events, 1)]
        defines += [f"-DSTEP_{name}={i}" for i, name in enumerate(self.steps)]
        self._run("cpp", "-P", "-DTRACE", *defines, str(MODELS / f"{model}.pml"), "model.pml")
        self._run("spin", "-a", "model.pml")
        self._run("cc", "-O1", "-w", "-DSAFETY", "-DNOREDUCE", "-DMEMLIM=2000", "-DVECTORSZ=16384", f"-I{MODELS}", "-o", "pan", "pan.c")

    def _run(self, *command):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"prove: {' '.join(command[:2])} of {self.model}: {done.stdout}{done.stderr}")

    def follow(self, events, name="trace"):
        """The steps that the model took; else Refused, with the event that it could not take."""
        file = os.path.join(self.folder, name)
        with open(file, "w") as out:
            for e in events:
                kind = self.events.index(e.kind) + 1 if e.kind in self.events else 0  # no step shows 0
                numbers = (kind, e.who, e.next, e.about, e.left, *e.passed)
                print(*numbers, file=out)
        done = subprocess.run(("./pan", "-E", "-m100000", "-w16"), cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, "TRACE": file})
        accepted = re.search(r"^trace: accepted (\d+)", done.stdout, re.MULTILINE)
        if accepted:
            used = int(accepted[1])
            return {step for i, step in enumerate(self.steps) if used >> i & 1}
        refused = re.search(r"^trace: refused at (\d+)", done.stdout, re.MULTILINE)
        if not refused or "max search depth" in done.stdout or "out of memory" in done.stdout:
            sys.exit(f"prove: the search of {self.model} did not end: {done.stdout}{done.stderr}")
        event = events[min(int(refused[1]), len(events) - 1)]
        why = "breaks the invariant" if "assertion violated" in done.stdout else "is no step that the model can take"
        raise Refused(f"{event} {why}")


def trace_of(path, driver, seed):
    """The lines of a seed's trace that are steps."""
    done = subprocess.run((path, "--driver", driver, "--seed", str(seed), "--modelled", "--trace", "-"),
                          capture_output=True, text=True, errors="replace")
    lines = [line.split(" ", 2) for line in done.stdout.splitlines() if re.match(r"\d+\.\d{9} step ", line)]
    return done.returncode, [(int(when.replace(".", "")), words.split()) for when, _, words in lines]


class Check:
    """Of a driver's traces: the model accepts them, has taken each of its steps in one of them, and refuses what was planted."""

    def __init__(self, driver, folder, path):
        self.driver, self.path, self.project = driver, path, PROJECTS[driver]
        self.follower = Follower(self.project.MODEL, folder)
        self.seen = dict.fromkeys(self.follower.steps, 0)
        self.events = self.traces = self.wrong = 0
        self.planted = dict.fromkeys(self.project.PLANTED, 0)

    def say(self, words):
        self.wrong += 1
        print(f"prove: {self.project.MODEL}: {words}")

    def seats(self, events, of, lines):
        return places.seat(events, of, places.Clocks(lines), self.project.CLIENTS)

    def seed(self, seed, shows):
        status, lines = trace_of(self.path, self.driver, seed)
        if status != 0 or not lines:
            self.say(f"script/simulate --driver {self.driver} --seed {seed} --modelled fails")
        events, of = self.project.read(lines)
        seated = self.seats(events, of, lines)
        if shows:
            print(*seated, sep="\n")
        self.events += len(seated)
        self.traces += 1
        try:
            for step in self.follower.follow(seated):
                self.seen[step] += 1
        except Refused as why:
            self.say(f"seed {seed} of {self.driver} is refused: {why}")
        return events, of, lines

    def plant(self, events, of, lines):
        for what, change in self.project.PLANTED.items():
            other = change(events)
            if other is None:
                continue
            try:
                self.follower.follow(self.seats(other, of, lines))
                self.say(f"the model accepts a trace in which {what}")
            except Refused:
                self.planted[what] += 1

    def all_steps(self, shows):
        """Seeds from 1 on, until each step has been seen; what a seed means changes with the code."""
        for seed in range(1, SEEDS_MOST + 1):
            trace = self.seed(seed, shows)
            if self.wrong > 0:
                break
            if 0 in self.planted.values():
                self.plant(*trace)
            if seed >= SEEDS_LEAST and all(self.seen[step] > 0 for step in self.follower.bound):
                break
        self.end()

    def end(self):
        for step, count in self.seen.items():
            if count == 0 and step in self.follower.bound:
                self.say(f"no trace has the step {step}; if no trace can have it, list it as `unbound` at the head of the model")
        for what, count in self.planted.items():
            if count == 0:
                self.say(f"no trace was refused in which {what}")
        print(f"  {self.project.MODEL:9} {self.driver}: {self.events} events of {self.traces} traces, {len(self.follower.bound)} kinds of steps, "
              f"{sum(self.planted.values())} planted traces refused")


def is_refused(check, seeds):
    """The first of the seeds whose trace is, and how; (None, "")."""
    for seed in range(1, seeds + 1):
        lines = trace_of(check.path, check.driver, seed)[1]
        try:
            check.follower.follow(check.seats(*check.project.read(lines), lines))
        except Refused as why:
            return seed, str(why)
    return None, f"its traces of {seeds} seeds are accepted"


def run_planted():
    """Faults of a driver that its model forbids: the model has to refuse a trace of each."""
    plants = planted.listed("steps")
    shop = planted.Workshop(ROOT / "build" / "planted", planted.git("rev-parse", "HEAD"), "locker-simulate")
    missed = 0
    for plant in plants:
        words = planted.plant_it(plant, shop)
        seed = None
        if not words:
            with tempfile.TemporaryDirectory(prefix="traces-") as folder:
                seed, words = is_refused(Check(plant.driver, folder, str(shop.build / program.PATH)), plant.seeds)
        missed += seed is None
        print(f"  {plant.name}: {f'seed {seed} is refused' if seed is not None else 'FAILED'}: {words}", flush=True)
    return 1 if missed else 0


def main():
    parser = argparse.ArgumentParser(prog="script/prove --traces")
    parser.add_argument("--driver", choices=sorted(PROJECTS), action="append")
    parser.add_argument("--first", type=int, metavar="SEED", help="the first seed; default: from 1 on, until all steps were seen")
    parser.add_argument("--seeds", type=int, metavar="N", default=10)
    parser.add_argument("--show", action="store_true", help="print the events of each trace")
    parser.add_argument("--program", metavar="FILE", help="the program locker-simulate (default: that of build/)")
    parser.add_argument("--planted", action="store_true", help="check that the models refuse traces of the faults in planted/steps.faults")
    options = parser.parse_args()
    for tool in ("spin", "cpp", "cc"):
        if shutil.which(tool) is None:
            print(f"prove: {tool} is not installed; run script/setup check", file=sys.stderr)
            return 77
    if options.planted:
        return run_planted()
    path = options.program or program.build()
    wrong = 0
    for driver in options.driver or sorted(PROJECTS):
        with tempfile.TemporaryDirectory(prefix="traces-") as folder:
            check = Check(driver, folder, path)
            if options.first is not None:
                for seed in range(options.first, options.first + options.seeds):
                    check.seed(seed, options.show)
            else:
                check.all_steps(options.show)
            wrong += check.wrong
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
