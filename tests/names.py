"""Documents name files, folders, functions and constants of ours: each of those names has to be true. Arguments: documents.

What stands in backquotes is looked at: a path, whole or its end; a word that begins like our names. Two kinds of tables say
more. One whose first column is headed by a folder (`core/`) has all of that folder's files in this column, without endings,
each once. One whose first column is headed File says in its second column which functions, in this order, a file has."""

import fnmatch
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
SKIPPED = re.compile(r"build.*|\.(?!ci$|clang).*|__pycache__")
ENDINGS = ("c", "h", "in", "py", "sh", "md", "pml", "map", "cmake", "txt", "mutants", "faults", "lua")
PATH = re.compile(r"[\w.*-]+(/[\w.*-]+)*/?")
WORD = re.compile(r"\b(?:lk_|LK_|locker_|LOCKER_)\w+\*?")
MADE = ("builtin-*.c", "version.h")  # by the build
PLACEHOLDER = re.compile(r"NAME|^build")
SAVED = re.compile(r"Save this as `([^`]+)`") # a file that the reader makes


def tree():
    """{path from the top: its text, or None for a folder}"""
    found = {}
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not SKIPPED.fullmatch(name)]
        here = os.path.relpath(folder, ROOT)
        for name in folders + files:
            path = os.path.normpath(os.path.join(here, name))
            found[path] = None
            if name in files and (name.endswith((".c", ".h", ".in", ".cmake", ".py", ".pml")) or name == "CMakeLists.txt"):
                with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                    found[path] = file.read()
    return found


def is_there(path, found):
    path = path.rstrip("/")
    return any(fnmatch.fnmatch(each, path) or fnmatch.fnmatch(each, "*/" + path) for each in list(found) + list(MADE))


def looks_like_a_path(text, found):
    if not PATH.fullmatch(text):
        return False
    return text.endswith("/") or text.split("/")[0] in found and "/" in text or text.split(".")[-1] in ENDINGS and "." in text


def defines(text, name):
    return re.search(r"^[^\s#/*].*\b%s\(|^#define %s\b" % (name, name), text, re.M)


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables(text):
    """(the heads' cells, the rows' cells) of each table."""
    for table in re.findall(r"^\|.*\n\|[-| :]+\n(?:\|.*\n)*", text, re.M):
        lines = table.splitlines()
        yield cells(lines[0]), [cells(line) for line in lines[2:]]


def check_folder(folder, rows, found):
    told = [name for row in rows for name in re.findall(r"`([^`]+)`", row[0])]
    there = {os.path.splitext(os.path.basename(path))[0] for path in found
             if os.path.dirname(path) == folder and path.endswith((".c", ".h"))}
    yield from ("%s/ has no file %s" % (folder, name) for name in sorted(set(told) - there))
    yield from ("the table of %s/ lacks %s" % (folder, name) for name in sorted(there - set(told)))
    yield from ("the table of %s/ names %s twice" % (folder, name) for name in sorted(set(told)) if told.count(name) > 1)


def check_functions(rows, found):
    for row in rows:
        for path in re.findall(r"`([^`]+)`", row[0]):
            text = next((found[each] for each in sorted(found) if each == path or each.endswith("/" + path)), None)
            for name in re.findall(r"`([^`]+)`", row[1]):
                if text is None or not defines(text, name):
                    yield "%s has no function %s" % (path, name)


def check(document, found, words):
    with open(os.path.join(ROOT, document), encoding="utf-8") as file:
        text = file.read()
    plain = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    for name in sorted(set(re.findall(r"`([^`\n]+)`", plain)) - set(SAVED.findall(plain))):
        if looks_like_a_path(name, found) and not PLACEHOLDER.search(name) and not is_there(name, found):
            yield "there is no %s" % name
        for word in WORD.findall(name):
            if word.endswith(("*", "_")):
                if not any(each.startswith(word.rstrip("*")) for each in words):
                    yield "nothing is called %s" % word
            elif word not in words and not PLACEHOLDER.search(word):
                yield "nothing is called %s" % word
    for head, rows in tables(text):
        folder = head[0].strip("`").rstrip("/")
        if head[0].startswith("`") and head[0].endswith("/`"):
            yield from check_folder(folder, rows, found)
        elif head[0] == "File":
            yield from check_functions(rows, found)


def main(documents):
    found = tree()
    words = set()
    for text in found.values():
        words.update(re.findall(r"\b(?:lk_|LK_|locker_|LOCKER_)\w+", text or ""))
    wrong = ["%s: %s" % (document, each) for document in documents for each in check(document, found, words)]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main(sys.argv[1:]))
