"""Makes a seed that fails shorter: leaves out faults, and then processes, threads and keys, as long as it still fails in the
same way."""
import re
import sys

import program

LIMITS = ("processes", "threads", "keys")


def way(failure):
    """Why it failed, whichever numbers are in it."""
    return re.sub(r"\d+", "N", failure)


def words(without, limits):
    """The options that make a plan of the seed's."""
    found = ["--without", ",".join(map(str, sorted(without)))] if without else []
    for name, most in limits.items():
        found += [f"--{name}", str(most)]
    return found


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
    def __init__(self, path, driver, seed):
        self.command = (path, "--driver", driver, "--seed", str(seed))
        self.tries, self.limits = 0, {}
        self.whole = self.run((), {})
        self.without = set()

    def run(self, without, limits):
        self.tries += 1
        return next(program.results((*self.command, *words(without, limits))))

    def fails(self, without, limits):
        return way(self.run(without, limits).failure) == way(self.whole.failure)

    def shrink_faults(self):
        everything = list(range(self.whole.drawn))
        kept = least(everything, lambda some: self.fails(set(everything) - set(some), self.limits))
        self.without = set(everything) - set(kept)

    def shrink_limits(self):
        for name in LIMITS:
            for most in range(1, 4):
                if self.fails(self.without, {**self.limits, name: most}):
                    self.limits[name] = most
                    break


def run(path, driver, seed):
    shrinker = Shrinker(path, driver, seed)
    if not shrinker.whole.failure:
        sys.exit(f"simulate: seed {seed} does not fail")
    shrinker.shrink_limits()
    shrinker.shrink_faults()
    shrinker.shrink_limits()
    last = shrinker.run(shrinker.without, shrinker.limits)
    print(f"seed {seed} fails: {last.failure}\n"
          f"{shrinker.whole.drawn - len(shrinker.without)} of {shrinker.whole.drawn} faults are needed, "
          f"{last.steps} of {shrinker.whole.steps} steps are left ({shrinker.tries} runs)\n"
          f"  again: {program.again(driver, seed, ' '.join(['', *words(shrinker.without, shrinker.limits)]))}")
    return 1
