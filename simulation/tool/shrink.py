"""Makes a seed that fails shorter: leaves out faults, and then processes, threads and keys, as long as it still fails in the
same way."""
import concurrent.futures
import re
import subprocess
import sys

import program

LIMITS = ("processes", "threads", "keys")
COURSES = 40  # that are tried of each plan


def way(failure):
    """Why it failed, whichever numbers are in it."""
    return re.sub(r"\d+", "N", failure)


def least(items, fails):
    """Of those that fail together, few that still do: without the half, a quarter and so on down to one, for as long as
    that helps (ddmin: https://doi.org/10.1109/32.988498)."""
    size = len(items)
    while size > 0 and items:
        at, before = 0, len(items)
        while at < len(items):
            fewer = items[:at] + items[at + size:]
            if fails(fewer):
                items = fewer
            else:
                at += size
        if size > 1 or len(items) == before:
            size //= 2
    return items


class Shrinker:
    """What is left out changes who goes on when, and so all that follows: the failure may be gone by chance. So each plan
    is given a few courses."""

    def __init__(self, path, driver, seed, jobs):
        self.jobs = jobs
        self.command = (path, "--driver", driver, "--seed", str(seed))
        self.runs, self.plan = 0, {}
        self.whole = self.last = self.run(self.plan)
        self.kept = list(range(self.whole.drawn))

    def run(self, plan):
        self.runs += 1
        done = subprocess.run((*self.command, *words(plan), "--results"), stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode not in (0, 1):
            sys.exit(done.returncode if done.returncode > 0 else 71)
        return program.read(done.stdout)

    def fails(self, **changes):
        now = self.plan.get("course", 0)
        plans = [{**self.plan, **changes, "course": c} for c in [now, *(c for c in range(COURSES) if c != now)]]
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for first in range(0, COURSES, self.jobs):
                some = plans[first:first + self.jobs]
                for plan, last in zip(some, pool.map(self.run, some)):
                    if way(last.failure) == way(self.whole.failure):
                        self.plan, self.last = plan, last
                        return True
        return False

    def without(self, kept):
        return {"without": ",".join(str(n) for n in range(self.whole.drawn) if n not in kept)}

    def shrink(self):
        if not self.whole.failure:
            return
        for name in LIMITS:
            any(self.fails(**{name: most}) for most in range(1, 4))
        self.kept = least(self.kept, lambda some: self.fails(**self.without(some)))
        for name in LIMITS:
            any(self.fails(**{name: most}) for most in range(1, self.plan.get(name, 4)))


def words(plan):
    """The options that make it of its seed."""
    return [word for name, value in plan.items() if value for word in (f"--{name}", str(value))]


def run(path, driver, seed, jobs):
    shrinker = Shrinker(path, driver, seed, jobs)
    shrinker.shrink()
    if not shrinker.whole.failure:
        print(f"seed {seed} does not fail")
        return 0
    print(f"seed {seed} fails: {shrinker.last.failure}\n"
          f"{len(shrinker.kept)} of {shrinker.whole.drawn} faults are needed, "
          f"{shrinker.last.steps} of {shrinker.whole.steps} steps are left ({shrinker.runs} runs)\n"
          f"  again: {program.again(driver, seed, ' '.join(['', *words(shrinker.plan)]))}")
    return 1
