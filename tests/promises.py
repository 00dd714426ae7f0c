"""Check docs/data/promises.json, and the pages that are generated from it.

    python3 tests/promises.py            check, and exit with 1 if anything is wrong
    python3 tests/promises.py --write    rewrite the generated parts of the pages, then check

Each promise of each driver names at least one test, and each test is registered in the group that it names. The generated
parts of docs/promises.md and docs/data/promises-tests.md stand between two HTML comments and are what the data give.

The data: `drivers`, in the order of the pages; `promises`; `further`, tests of single statements of the page, each with its
driver. A promise has a name and, for each driver, a text and its tests (null: the promise does not apply to this driver). A
promise may also have `all`, a text that holds for every driver to which the promise applies. Then a driver's own text is what
its promise has in addition, and may be missing."""

import json
import os
import re
import sys
import textwrap

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
DATA = "docs/data/promises.json"
BEGIN = "<!-- Generated from docs/data/promises.json by tests/promises.py --write. Do not edit this part. -->"
END = "<!-- End of the generated part. -->"
TEST = re.compile(r"\w+(/\w+){1,2}")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def is_text(value):
    """True if the value is a text that can stand in a table's cell."""
    return isinstance(value, str) and value.strip() == value != "" and "|" not in value and "\n" not in value


def check_structure(data):
    """Yield what is wrong in the form of the data."""
    for promise in data["promises"]:
        if list(promise["of"]) != data["drivers"]:
            yield "'%s' has not one entry for each driver, in the order of \"drivers\"" % promise["name"]
        if "all" in promise and not is_text(promise["all"]):
            yield "'%s' has an empty text for all drivers" % promise["name"]
        if not set(promise) <= {"name", "all", "of"}:
            yield "'%s' has other entries than \"name\", \"all\" and \"of\"" % promise["name"]
        for driver, cell in promise["of"].items():
            if cell is not None and not set(cell) <= {"text", "tests"}:
                yield "'%s' of %s has other entries than \"text\" and \"tests\"" % (promise["name"], driver)
            if cell is not None and not is_text(cell["text"] if "text" in cell or "all" not in promise else promise["all"]):
                yield "'%s' of %s has no text" % (promise["name"], driver)
    names = [promise["name"] for promise in data["promises"]]
    yield from ("there are two promises '%s'" % name for name in sorted(set(names)) if names.count(name) > 1)
    for entry in data["further"]:
        if entry["driver"] not in data["drivers"] or not is_text(entry["text"]):
            yield "an entry of \"further\" has no driver or no text: %s" % entry


def cells(data):
    """Yield the name, the driver and the tests of each statement."""
    for promise in data["promises"]:
        for driver, cell in promise["of"].items():
            if cell is not None:
                yield promise["name"], driver, cell["tests"]
    for entry in data["further"]:
        yield entry["text"], entry["driver"], entry["tests"]


def compared(file, test):
    """Return the file that has the test. spawned.py has the tests that several files of compare/ share."""
    path = "tests/integration/compare/test_%s.py" % file
    exists = os.path.exists(os.path.join(ROOT, path))
    return path if not exists or "def %s(" % test in read(path) else "tests/integration/compare/spawned.py"


def source(driver, test):
    """Return the file that registers the test, and a pattern of the registration. None: the name has another form."""
    parts = test.split("/")
    if not TEST.fullmatch(test):
        return None
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
        return "testing/conformance/%s.c" % parts[0].split("_")[-1], registered  # the group shared_storms is in storms.c
    return None


def check_tests(data):
    """Yield each statement without a test, and each test that is not registered."""
    for name, driver, tests in cells(data):
        if not tests:
            yield "no test is named for '%s' of %s" % (name, driver)
        for test in sorted(set(tests)):
            if tests.count(test) > 1:
                yield "'%s' of %s names %s twice" % (name, driver, test)
            place = source(driver, test)
            if place is None:
                yield "'%s' of %s: '%s' names no test; write GROUP/TEST" % (name, driver, test)
            elif not os.path.exists(os.path.join(ROOT, place[0])) or not re.search(place[1], read(place[0])):
                yield "'%s' of %s: %s registers no test %s" % (name, driver, place[0], test.split("/")[-1])


def together(promise, part):
    """Yield each different value of a part, and the drivers that have it. None: the promise does not apply, or lacks the part."""
    values = {driver: cell and cell.get(part) for driver, cell in promise["of"].items()}
    seen = []
    for value in values.values():
        if value not in seen:
            seen.append(value)
            yield value, ", ".join(driver for driver, other in values.items() if other == value)


def item(text):
    """Return a list's item, wrapped; code and links stay on one line."""
    text = re.sub(r"`[^`]*`|\[[^]]*\]\([^)]*\)", lambda found: found.group().replace(" ", "\0"), text)
    lines = textwrap.wrap(text, 120, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
                          break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def rows(promise):
    """Yield the drivers and the text of each row of a promise. The text of all drivers comes first."""
    applies = [driver for driver, cell in promise["of"].items() if cell is not None]
    absent = [driver for driver in promise["of"] if driver not in applies]
    if absent:
        yield ", ".join(absent), "Does not apply"
    if "all" in promise:
        yield ", ".join(applies) if absent else "all", promise["all"]
    for text, drivers in together(promise, "text"):
        if text is not None:
            yield drivers, text


def promises_part(data):
    """Return the generated part of docs/promises.md: a table with a row for each different text of each promise."""
    lines = ["| Promise | Driver | What the driver promises |", "|---|---|---|"]
    for promise in data["promises"]:
        name = "**%s**" % promise["name"]
        for drivers, text in rows(promise):
            lines.append("| %s | %s | %s |" % (name, drivers, text) if name else "| | %s | %s |" % (drivers, text))
            name = None
    return lines + [""]


def tests_part(data):
    """Return the generated part of docs/data/promises-tests.md: a section for each promise, with a list for each driver."""
    lines = []
    for promise in data["promises"]:
        lines += ["## %s" % promise["name"], ""]
        for tests, drivers in together(promise, "tests"):
            if tests is not None:
                lines += ["- **%s**" % drivers] + ["  - `%s`" % test for test in tests]
        lines.append("")
    lines += ["## Further statements", ""]
    for entry in data["further"]:
        lines += item("**%s**: %s" % (entry["driver"], entry["text"])) + ["  - `%s`" % test for test in entry["tests"]]
    return lines + [""]


PAGES = {"docs/promises.md": promises_part, "docs/data/promises-tests.md": tests_part}


def with_part(path, lines):
    """Return the page with these lines between the two comments."""
    text = read(path)
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(END) < text.index(BEGIN):
        sys.exit("%s: write the two comments around the generated part, each once:\n%s\n%s" % (path, BEGIN, END))
    return text[:text.index(BEGIN)] + "\n".join([BEGIN, ""] + lines) + "\n" + text[text.index(END):]


def write_pages(data):
    for path, part in PAGES.items():
        text = with_part(path, part(data))
        with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
            file.write(text)


def check_pages(data):
    """Yield each page whose generated part is not what the data give."""
    for path, part in PAGES.items():
        if with_part(path, part(data)) != read(path):
            yield "%s is not what %s gives; run python3 tests/promises.py --write" % (path, DATA)


def main(arguments):
    if arguments not in ([], ["--write"]):
        sys.exit(__doc__)
    try:
        data = json.loads(read(DATA))
        wrong = list(check_structure(data)) or list(check_tests(data))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        sys.exit("%s is not as tests/promises.py describes it: %r" % (DATA, error))
    if not wrong:
        if arguments:
            write_pages(data)
        wrong = list(check_pages(data))
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main(sys.argv[1:]))
