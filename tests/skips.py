#!/usr/bin/env python3
"""skips.py: finds tests that are skipped without a word, in files of tests/, testing/, simulation/, lab/ and examples/.

A test that this machine can't run reports that by lk_test_report_skip() or skip_reported() (C), report_skip() (Python) or a line in
the file that LOCKER_TEST_SKIPPED names (shell). Whether all do is judged by these words:

  C       skip(), exit 77; a return, or an if without else, that asks for the user, in a test
  Python  SkipTest, skipTest, unittest.skip*; a return where the user is asked for
  shell   exit 77
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("tests", "testing", "simulation", "lab", "examples")
NEAR = 4  # the report stands so many lines before it, at most
WORDS = {
    ".c": (re.compile(r"(?<![\w>])skip\(\)|\b_?exit\(77\)|\breturn 77\b|if \(.*\bgete?uid\(\) [!=]= 0"),
           re.compile(r"report_skip\(|skip_reported\(|cannot_(?:cut|freeze)\(|lk_skipped\+\+")),
    ".h": (re.compile(r"(?<![\w>])skip\(\)"), re.compile(r"report_skip\(|lk_skipped\+\+")),
    ".py": (re.compile(r"\bSkipTest\b|\bskipTest\(|\bunittest\.skip|^\s*if .*\bgete?uid\(\) [!=]= 0.*:$"), re.compile(r"report_skip\(")),
    ".sh": (re.compile(r"\bexit 77\b"), re.compile(r"LOCKER_TEST_SKIPPED|skipped\.sh")),
}
# These ask for the user and skip nothing.
ALLOWED = {
    ("testing/servers/network.c", "if (geteuid() != 0)"): "answers why there is no network, which its callers report",
    ("tests/campaign/services.py", "if os.geteuid() != 0:"): "answers why there is no network, which the campaign reports",
}


def silent(name, text):
    """The lines that skip without a report, as (number, line)."""
    skips, report = WORDS.get(os.path.splitext(name)[1], (None, None))
    lines = text.splitlines()
    for at, line in enumerate(lines if skips else ()):
        code = re.sub(r"/\*.*|//.*|^\s*\*.*", "", line)
        if skips.search(code) and (name, line.strip()) not in ALLOWED and \
                not report.search("\n".join(lines[max(0, at - NEAR):at + NEAR])):
            yield at + 1, line.strip()


def finds_what_it_is_for():
    """True if lines as were in the tree once are found."""
    return all(list(silent(name, text)) for name, text in (
        ("a.c", "if (geteuid() != 0)\n    skip();"), ("a.c", "if (geteuid() == 0) {\n    check();\n}"), ("a.c", "_exit(77);"),
        ("a.py", "raise unittest.SkipTest('x')"), ("a.py", "if os.geteuid() != 0:\n    return"), ("a.sh", "exit 77")))


def main():
    if not finds_what_it_is_for():
        sys.exit("skips.py: does not find what it is for")
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "--", *FOLDERS], check=True, stdout=subprocess.PIPE, text=True).stdout
    count = 0
    for name in listed.splitlines():
        path = os.path.join(ROOT, name)
        if name == "tests/skips.py" or os.path.splitext(name)[1] not in WORDS or not os.path.exists(path):
            continue
        with open(path) as file:
            for number, line in silent(name, file.read()):
                count += 1
                print("%s:%d: skips without a report: %s" % (name, number, line))
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
