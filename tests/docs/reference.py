#!/usr/bin/env python3
"""Test the manual pages of section 3, which cmake/reference.py writes from the public headers:
  - each function and each type has a page with the sections that it needs, and pages refer only to pages that exist;
  - each sentence of the headers' comments is in a page, and those before a function are in the function's page;
  - groff warns of nothing;
  - the generator refuses a header with a form that it does not know, and prints the line and what to do.
Arguments: the generator, the folder of the pages, the headers."""
import glob
import os
import re
import subprocess
import sys
import tempfile

HEADER = """/* shop.h: a shop.
 *
 * Rules:
 *   - Apples are red.
 */
/** An apple. */
typedef struct locker_apple {
    int size; /**< in mm */
    /** The colour. */
    int colour;
} locker_apple;

/** Sell `count` apples.
 *
 * Returns 0. */
LOCKER_API int locker_sell(int count);
"""
# Each change of the header above, and the line and a word that the generator must print.
REFUSED = [
    ("/* shop.h: a shop.", "/* A shop.", 1, "shop.h: "),
    (" *   - Apples", " * - Apples", 4, "indent"),
    (" */\n/** An", " *  and green.\n */\n/** An", 5, "indent"),
    (" * Rules:", " Rules:", 3, "' * '"),
    (" * Rules:", " *\tRules:", 3, "tabs"),
    (" * Rules:", " * R\u00e8gles:", 3, "ASCII"),
    ("/** An apple. */\n", "", 6, "comment"),
    ("/** An apple. */\n", "/** An apple. */\n/** A pear. */\n", 7, "comment"),
    ("{\n    int size", "{\n    union { int a; } u;\n    int size", 7, "form"),
    ("; /**< in mm */", "; // in mm", 7, "form"),
    ("; /**< in mm */", ";\n    /**< in mm */", 9, "before it"),
    ("    int colour;", "    int colour; /**< red */", 10, "before it"),
    ("    int colour;\n", "", 9, "member"),
    ("`count`", "`count", 13, "backtick"),
    (" * Returns 0.", " * @return 0.", 15, "tag"),
    (" * Returns 0.", " * Zero.", 16, "locker_sell() returns"),
    ("/** Sell `count` apples.\n *\n * Returns 0. */\n", "", 13, "comment"),
    ("LOCKER_API int", "int", 16, "form"),
    ("int count);\n", "int count);\n/** A pear. */\n", 17, "comment"),
    ("int count);\n", "int count);\ntypedef struct locker_pear locker_pear;\n", 17, "comment"),
    ("int count);\n", "int count);\n/** A pear.\n", 17, "form"),
]


def squeezed(text):
    return re.sub("[^A-Za-z0-9]", "", text)


def formatted(page):
    """Return the page as text, and the complaints of groff. How a line breaks (-W break) depends on groff's version."""
    done = subprocess.run(["groff", "-man", "-ww", "-W", "break", "-Tutf8", "-P-cbou", page], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    return done.stdout.decode(), done.stderr.decode()


def parts(comment):
    """Return the sentences of a comment, and shorter pieces."""
    text = re.sub(r"\n\s*\*", "\n", comment.strip("/*")).lstrip("<")
    text = re.sub(r"^ -+ .*? -+\s", "", text)
    return [part for part in re.split(r"(?<=[.:;?!)])\s", text) if squeezed(part) not in ("", "Returns")]


def check_pages(pages, headers):
    for name, (text, complaints) in pages.items():
        yield from complaints.splitlines()
        for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "SEE ALSO"):
            if not re.search(rf"^{section}\n +\S", text, re.M):
                yield f"{name}(3): the section {section} is missing or empty"
        for other in re.findall(r"\b((?:lib)?locker[\w-]*)\(3\)", text):
            if other not in pages:
                yield f"{name}(3): there is no {other}(3)"
    everything = " ".join(squeezed(text) for text, _ in pages.values())
    texts = {path: open(path, encoding="utf-8").read() for path in headers}
    without_fault = any("#define LOCKER_HAS_FAULT 0" in text for text in texts.values())
    for path, text in texts.items():
        if without_fault:
            text = re.sub(r"^#if LOCKER_HAS_FAULT\n.*?^#endif", "", text, flags=re.M | re.S)
        yield from check_header(path, text, pages, everything)


def check_header(path, text, pages, everything):
    functions = re.findall(r"(/\*\*(?:(?!\*/).)*\*/\n)?^(LOCKER_API|static inline)\b([^;{]*?)(\w+)\(", text, re.M | re.S)
    types = re.findall(r"^typedef (?:struct|enum) (\w+)|^struct (\w+) \{|^typedef \w.*\(\*(\w+)\)\(", text, re.M)
    for name in [function[3] for function in functions] + ["".join(names) for names in types]:
        if name not in pages:
            yield f"{path}: {name} has no page"
    for comment, _, result, name in functions:
        page = pages.get(name, ("", ""))[0]
        if result.split() != ["void"] and not re.search(r"^RETURN VALUE\n +\S", page, re.M):
            yield f"{name}(3): the section RETURN VALUE is missing or empty"
        for part in parts(comment):
            if squeezed(part) not in squeezed(page):
                yield f"{name}(3): the text of {path} is missing: {part}"
    for comment in re.findall(r"/\*.*?\*/", re.sub(r"^#(?:endif|define LOCKER_\w+_H).*", "", text, flags=re.M), re.S):
        for part in parts(comment):
            if squeezed(part) not in everything:
                yield f"{path}: no page has the text: {part}"


def check_refusals(generator):
    with tempfile.TemporaryDirectory() as folder:
        header = os.path.join(folder, "shop.h")

        def run(text):
            with open(header, "w", encoding="utf-8") as file:
                file.write(text)
            return subprocess.run([sys.executable, "-B", generator, os.path.join(folder, "man3"), "1", header],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
        done = run(HEADER)
        pages = sorted(map(os.path.basename, glob.glob(folder + "/man3/*")))
        if done.returncode or pages != ["liblocker-shop.3", "locker_apple.3", "locker_sell.3"]:
            yield f"the generator does not accept the header of this test: {done.stdout}, {pages}"
        for before, after, line, word in REFUSED:
            done = run(HEADER.replace(before, after, 1))
            if done.returncode != 1 or f"{header}:{line}: " not in done.stdout or word not in done.stdout:
                yield f"with {after!r} in place of {before!r}, the generator ended with {done.returncode}: {done.stdout}"


def main(generator, folder, *headers):
    try:
        pages = {os.path.basename(page)[:-2]: formatted(page) for page in glob.glob(folder + "/*.3")}
    except FileNotFoundError:
        sys.exit("reference.py: there is no groff; install the package groff-base")
    wrong = [*check_pages(pages, headers), *check_refusals(generator)]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong or not pages else 0


sys.exit(main(*sys.argv[1:]))
