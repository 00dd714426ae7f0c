"""No file of the product reads the environment by anything but secure_getenv(): a program with raised privileges would do what its
user wants. What is let through is named here, with the reason."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDERS = ("base", "core", "backends", "tools", "lab")
READS = re.compile(r"(?<!secure_)\bgetenv\s*\(|\b_*environ\b(?!->)|\benvp\b")
LET_THROUGH = {
    "tools/run_env.c": r"environ\[",  # what the command under the lock inherits
    "lab/bench/row_line.c": "environ",  # likewise, of a program that is measured
    "lab/bench/row_etcd_others.c": "environ",
}


def without_comments(text):
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"', lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)


def found_in(name, text):
    for number, line in enumerate(without_comments(text).split("\n"), 1):
        if READS.search(line) and not (name in LET_THROUGH and re.search(LET_THROUGH[name], line)):
            yield "%s:%d: %s" % (name, number, line.strip())


def main():
    # what has to be found is found
    for line in ('x = getenv("A");', "x = getenv (name);", "for (char **e = environ; *e; e++)"):
        assert list(found_in("core/x.c", line)), line
    for line in ('x = secure_getenv("A");', "/* getenv() */", 'puts("getenv()");'):
        assert not list(found_in("core/x.c", line)), line
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.[ch]"))]
    assert len(files) > 200, "the sources are not where they were"
    found = [one for path in files for one in found_in(str(path.relative_to(ROOT)), path.read_text())]
    print("\n".join(found + ["read it by secure_getenv()"] if found else ["%d files" % len(files)]))
    sys.exit(1 if found else 0)


main()
