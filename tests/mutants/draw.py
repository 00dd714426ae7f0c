"""Mutants that are drawn: a site in the product's C, and what is changed there, by a seed. Lists that people wrote flatter, as
their authors know the tests. script/mutate --random draws, leaves out what changes no object code, and tests the rest."""
import difflib
import json
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path

from source import KEYWORDS, Source

AREAS = {"core": ["core/*.c"], "file": ["backends/file/*.c"], "redis": ["backends/redis/*/*.c"],
         "zookeeper": ["backends/zookeeper/*/*.c"], "etcd": ["backends/etcd/*/*.c"], "mock": ["testing/mock/*.c"]}

COMPARED = {"<": ("<=", ">", ">="), "<=": ("<", ">="), ">": (">=", "<", "<="), ">=": (">", "<="), "==": ("!=",), "!=": ("==",)}
LOGIC = {"&&": "||", "||": "&&"}
STEPS = {"++": "--", "--": "++", "+=": "-=", "-=": "+="}


def compared(s, i):
    return [s.replaced(i, i, new) for new in COMPARED.get(s.word(i), ())]


def logic(s, i):
    return [s.replaced(i, i, LOGIC[s.word(i)])] if s.word(i) in LOGIC else []


def sum_(s, i):
    is_sum = s.word(i) in "+-" and (s.kind(i - 1) in ("word", "number") or s.word(i - 1) in (")", "]")) and \
        s.word(i - 1) not in KEYWORDS
    return [s.replaced(i, i, "-" if s.word(i) == "+" else "+")] if is_sum else []


def step(s, i):
    return [s.replaced(i, i, STEPS[s.word(i)])] if s.word(i) in STEPS else []


def constant(s, i):
    if s.kind(i) != "number" or not s.word(i).isdecimal():
        return []
    n = int(s.word(i))
    return [s.replaced(i, i, str(new)) for new in sorted({n + 1, max(n - 1, 0), 2 * n} - {n})]


def dropped(s, i):
    """A statement that is a call or an assignment."""
    begin = i
    if [s.word(k) for k in (i, i + 1, i + 2)] == ["(", "void", ")"]:
        begin = i + 3
    end = s.callee_end(begin) if s.begins_statement(i) or s.follows_condition(i) else -1
    if end < 0 or s.word(end + 1) not in ("(", "="):
        return []
    stop = s.statement_end(i)
    return [s.replaced(i, stop, ";")] if s.word(end + 1) == "=" or s.partner.get(end + 1) == stop - 1 else []


def negated(s, i):
    if s.word(i) not in ("if", "while") or s.word(i + 1) != "(" or i + 1 not in s.partner:
        return []
    end = s.partner[i + 1]
    return [s.replaced(i + 1, end, "(!" + s.shown(i + 1, end) + ")")]


def early_return(s, i):
    if not s.begins_statement(i) or s.word(i) in ("}", "return", "case", "default"):
        return []
    return [s.replaced(i, i, ("return; " if s.is_void[i] else "return 0; ") + s.word(i))]


def swapped(s, i):
    """Two arguments that stand side by side."""
    if s.kind(i) != "word" or s.word(i) in KEYWORDS or s.word(i + 1) != "(" or s.depth[i] == 0:
        return []
    found = s.arguments(i + 1)
    return [s.replaced(a, d, s.shown(c, d) + ", " + s.shown(a, b)) for (a, b), (c, d) in zip(found, found[1:])
            if s.shown(a, b) != s.shown(c, d)]


OPERATORS = {"comparison": compared, "logic": logic, "sum": sum_, "step": step, "constant": constant, "dropped": dropped,
             "negated": negated, "early return": early_return, "arguments swapped": swapped}


class Drawn:
    """As script/mutate wants a mutant."""

    def __init__(self, ident, area, tests, operator, source, new):
        self.id, self.area, self.tests, self.operator, self.path = ident, area, tests, operator, source.path
        self.old, self.new, self.equivalent, self.why = source.text, new, None, operator

    def apply(self, _tree):
        return {self.path: self.new}, ""

    def diff(self):
        return "".join(difflib.unified_diff(self.old.splitlines(True), self.new.splitlines(True), self.path, self.path, n=2))


def draw(tree, seed, area, patterns, tests):
    """Mutants without end, in the order of the seed: first what is changed is drawn, then where. Each is drawn once."""
    paths = sorted({path for pattern in patterns for path in tree.glob(pattern)})
    sources = [Source(str(path.relative_to(tree)), path.read_text()) for path in paths]
    if not sources:
        sys.exit(f"mutate: no file is called {' or '.join(patterns)}")
    sites = {name: [(s, i, k) for s in sources for i in range(len(s.tokens)) for k in range(len(change(s, i)))]
             for name, change in OPERATORS.items()}
    chance, number = random.Random(seed), 0
    while any(sites.values()):
        name = chance.choice([name for name in OPERATORS if sites[name]])
        source, i, k = sites[name].pop(chance.randrange(len(sites[name])))
        number += 1
        yield Drawn(f"{area}-{seed}-{number}", area, tests, name, source, OPERATORS[name](source, i)[k])


class Compiler:
    """Compiles a file of a build folder as it is compiled there, but without debug information. Two warnings are errors: no build of
    ours would pass with them (`arguments swapped` draws such)."""

    def __init__(self, folder, build):
        said = subprocess.run(("ninja", "-C", str(build), "-t", "compdb"), capture_output=True, text=True, check=True).stdout
        self.folder, self.entries, self.sound = folder, {}, {}
        for entry in json.loads(said):
            path = Path(entry["directory"], entry["file"]).resolve()
            if entry["output"].endswith(".o") and path.is_relative_to(folder.resolve()):
                self.entries.setdefault(str(path.relative_to(folder.resolve())), entry)

    def compiled(self, path):
        entry = self.entries.get(path)
        if entry is None:
            return None
        words = [w for w in shlex.split(entry["command"]) if not re.fullmatch(r"-g\w*", w)]
        out = Path(entry["directory"], "drawn.o")
        words[words.index("-o") + 1] = str(out)
        words += ["-Werror=incompatible-pointer-types", "-Werror=int-conversion"]
        done = subprocess.run(words, cwd=entry["directory"], capture_output=True)
        return out.read_bytes() if done.returncode == 0 else None

    def verdict(self, mutant):
        """Why it is none: it doesn't compile, or its object code is the same; "": it is one."""
        path = self.folder / mutant.path
        if mutant.path not in self.sound:
            self.sound[mutant.path] = self.compiled(mutant.path)
        path.write_text(mutant.new)
        try:
            code = self.compiled(mutant.path)
        finally:
            path.write_text(mutant.old)
        return "compile" if code is None else "same" if code == self.sound[mutant.path] else ""
