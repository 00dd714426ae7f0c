"""Defects that are put into the code one at a time: a simulation in which nothing can fail shows nothing. They stand in
simulation/planted (README.md there)."""
import os
import shutil
import sys
import time
from pathlib import Path

import program

FOLDER = Path(program.ROOT) / "simulation" / "planted"
sys.path.insert(0, os.path.join(program.ROOT, "tests", "mutants"))
import faults  # noqa: E402
from workshop import Workshop, git  # noqa: E402


class Plant:
    def __init__(self, fault):
        self.fault, self.name = fault, fault.id
        self.finding, self.driver, self.seeds = fault.fields.get("finding", "–"), fault.fields["driver"], int(fault.fields["seeds"])

    def apply(self, tree):
        """Change the files of the tree. What is wrong with the fault, if it does not apply."""
        changed, complaint = self.fault.apply(tree)
        for path, text in changed.items():
            (tree / path).write_text(text)
        return complaint


def listed(name):
    return [Plant(fault) for fault in faults.read(FOLDER / f"{name}.faults", ("finding",), ("what", "driver", "seeds"))]


def chosen(names):
    plants = listed("defects")
    for name in names:
        if name not in [plant.name for plant in plants]:
            print(f"simulate: there is no planted fault {name}; use one of {', '.join(plant.name for plant in plants)}",
                  file=sys.stderr)
            sys.exit(64)
    return [plant for plant in plants if not names or plant.name in names]


def check(names):
    """Whether each applies to the files as they are."""
    plants = chosen(names) + ([] if names else listed("steps"))
    bad = [complaint for complaint in (plant.fault.apply(Path(program.ROOT))[1] for plant in plants) if complaint]
    for complaint in bad:
        print(f"simulate: {complaint}", file=sys.stderr)
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
