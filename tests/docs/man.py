#!/usr/bin/env python3
"""Format each manual page with groff: it has to warn of nothing, and quotes and parentheses have to come out in pairs.
Arguments: manual pages."""
import re
import subprocess
import sys

PAIRS = {"“": "”", "‘": "’", "(": ")", "[": "]"}


def formatted(page):
    """Return the page as text, without overstriking, and what groff complains about."""
    try:
        # How a line breaks (-W break) hangs on groff's version, and is no fault of the page.
        done = subprocess.run(["groff", "-mdoc", "-ww", "-W", "break", "-Tutf8", "-P-cbou", page], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
    except FileNotFoundError:
        sys.exit("man.py: there is no groff; install the package groff-base")
    return done.stdout.decode(), done.stderr.decode()


def unpaired(text):
    """Yield what is wrong with the quotes and parentheses of a paragraph."""
    text = re.sub(r"(?<=\w)’(?=\w)|(?<=s)’(?=\s)", "'", text) # an apostrophe
    opened = []
    for character in text:
        if character in PAIRS:
            if character in opened and character != "(":
                yield "%s inside %s" % (character, character)
            opened.append(character)
        elif character in PAIRS.values():
            if not opened or PAIRS[opened.pop()] != character:
                yield "%s closes nothing" % character
    if opened:
        yield "%s is not closed" % opened[-1]


def check(page):
    text, complaints = formatted(page)
    yield from complaints.splitlines()
    for paragraph in re.split(r"\n\s*\n", text):
        for wrong in unpaired(paragraph):
            yield "%s: %s in:\n%s" % (page, wrong, paragraph)


def main(pages):
    wrong = [line for page in pages for line in check(page)]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong or not pages else 0


sys.exit(main(sys.argv[1:]))
