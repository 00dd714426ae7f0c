"""Faults that there were, put back one at a time: a simulation in which nothing can fail shows nothing. Each is a patch in
testing/simulation/planted, under lines that say what it is (README.md there)."""
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import program

FOLDER = Path(program.ROOT) / "testing" / "simulation" / "planted"
STEPS = FOLDER / "steps"  # what the models refuse (script/prove --traces --planted)
sys.path.insert(0, os.path.join(program.ROOT, "tests", "mutants"))
from workshop import Workshop, git  # noqa: E402


class Plant:
    def __init__(self, file):
        self.file, self.name = file, file.stem
        head = dict(re.findall(r"^(finding|what|driver|seeds): (.*)$", file.read_text().partition("\n--- ")[0], re.MULTILINE))
        if {"finding", "what", "driver", "seeds"} - head.keys():
            sys.exit(f"simulate: {file.name} lacks a line of finding, what, driver and seeds")
        self.finding, self.what, self.driver, self.seeds = head["finding"], head["what"], head["driver"], int(head["seeds"])

    def apply(self, folder, *how):
        """What git says against it."""
        return subprocess.run(("git", "apply", *how, str(self.file)), cwd=folder, capture_output=True, text=True).stderr


def chosen(names, folder=FOLDER):
    plants = [Plant(file) for file in sorted(folder.glob("*.patch"))]
    for name in names:
        if name not in [plant.name for plant in plants]:
            print(f"simulate: there is no planted fault {name}; use one of {', '.join(plant.name for plant in plants)}",
                  file=sys.stderr)
            sys.exit(64)
    return [plant for plant in plants if not names or plant.name in names]


def check(names):
    """Whether each applies to the files as they are."""
    plants = chosen(names) + ([] if names else chosen([], STEPS))
    bad = [plant for plant in plants if plant.apply(program.ROOT, "--check")]
    for plant in bad:
        print(f"simulate: {plant.file.name} does not apply; write it again for the current lines", file=sys.stderr)
    print(f"{len(plants)} planted faults, {len(bad)} that do not apply")
    return 1 if bad else 0


def plant_it(plant, shop):
    """What is said against it; nothing: it is built."""
    git("checkout", "-q", "--force", "HEAD", cwd=shop.folder)
    said = plant.apply(shop.folder)
    status, words = (1, said) if said else shop.make("locker-simulate")
    return f"it does not build: {words[-500:]}" if status != 0 else ""


def failures(path, plant, first, jobs):
    """Of seeds from that one on, the first that fails, if any does. An interrupt ends all: who was interrupted found nothing out."""
    left = plant.seeds - first + 1
    ran = list(program.results((path, "--driver", plant.driver, "--first", str(first), "--seeds", str(left), "--stop", "--jobs",
                                str(jobs))))
    found = [result for result in ran if result.failure]
    if not found and len(ran) < left:
        sys.exit(program.INTERRUPTED)
    return found


def look_for(plant, path, sound, jobs):
    """The seed that finds it, and how it fails; (None, words) when none does. A seed that fails without it doesn't."""
    first = 1
    while first <= plant.seeds:
        found = failures(path, plant, first, jobs)
        if not found:
            break
        seed = found[0].seed
        if not next(program.results((sound, "--driver", plant.driver, "--seed", str(seed)))).failure:
            return seed, found[0].failure
        print(f"simulate: seed {seed} fails without {plant.name}, too", file=sys.stderr)
        first = seed + 1
    return None, f"not found in {plant.seeds} seeds"


def run(names, jobs):
    plants = chosen(names)
    shop = Workshop(Path(program.ROOT) / "build" / "planted", git("rev-parse", "HEAD"), "locker-simulate")
    path = str(shop.build / program.PATH)
    sound = shutil.copy(path, path + "-sound")
    print("| Finding | Planted | Driver | Seed | Seconds | It fails with |\n|---|---|---|---|---|---|")
    missed = 0
    for plant in plants:
        began = time.monotonic()
        words = plant_it(plant, shop)
        seed, words = (None, words) if words else look_for(plant, path, sound, jobs)
        missed += seed is None
        print(f"| {plant.finding} | {plant.name} | {plant.driver} | {'–' if seed is None else seed} | "
              f"{time.monotonic() - began:.0f} | {words} |", flush=True)
    return 1 if missed else 0
