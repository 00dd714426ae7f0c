"""Check docs/promises.md against the tree: each test that it names is registered in the group that it names, and its table of
tests has the rows and columns of its table of promises, with a test wherever that promises something."""

import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def parse(table):
    """Return a table's columns, and its cells by row and column."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    columns = rows[0][1:]
    for row in rows[2:]:
        if len(row) != len(columns) + 1:
            sys.exit("docs/promises.md: the row '%s' has not one cell for each column" % row[0])
    return columns, {row[0].split(" (")[0]: dict(zip(columns, row[1:])) for row in rows[2:]}


def tables(text):
    """Parse the two tables of drivers: what they promise, and the tests."""
    found = [parse(block) for block in text.split("\n\n") if block.startswith("| | file |")]
    if len(found) != 2:
        sys.exit("docs/promises.md: there are %d tables of drivers, not 2" % len(found))
    return found


def compared(file, test):
    """A file of these names its services, and has from spawned.py what every family of them has to show."""
    path = "tests/integration/compare/test_%s.py" % file
    there = os.path.exists(os.path.join(ROOT, path))
    return path if not there or "def %s(" % test in read(path) else "tests/integration/compare/spawned.py"


def source(driver, test):
    """The file that registers the test, and how it is registered there."""
    parts = test.split("/")
    if parts[0] == "cli" and len(parts) == 3:
        return "tests/integration/cli/test_%s.py" % parts[1], r"def %s\(" % parts[2]
    if parts[0] == "compare" and len(parts) == 3:
        return compared(*parts[1:]), r"def %s\(" % parts[2]
    registered = r"(cmocka_unit_test\w*|\w+_test)\(\s*%s\b" % parts[-1]
    if parts[0] == "integration" and len(parts) == 3:
        return "tests/integration/%s/%s.c" % (driver, parts[1]), registered
    if parts[0] == "unit" and len(parts) == 3:
        return "tests/unit/%s.c" % parts[1], registered
    if len(parts) == 2:
        return "testing/conformance/%s.c" % parts[0].split("_")[-1], registered # shared_storms are storms
    sys.exit("docs/promises.md: '%s' names no test; write GROUP/TEST" % test)


def main():
    wrong = []
    (columns, promises), (shown_columns, shown) = tables(read("docs", "promises.md"))
    if columns != shown_columns or list(promises) != list(shown):
        wrong.append("the two tables of docs/promises.md have different rows or columns")
    for row, cells in shown.items():
        for driver, cell in cells.items():
            tests = re.findall(r"`([^`]+)`", cell)
            if not tests and promises.get(row, {}).get(driver) != cell:
                wrong.append("no test is named for '%s' of %s" % (row, driver))
            for test in tests:
                path, registered = source(driver, test)
                if not os.path.exists(os.path.join(ROOT, path)) or not re.search(registered, read(path)):
                    wrong.append("%s registers no test %s" % (path, test.split("/")[-1]))
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main())
