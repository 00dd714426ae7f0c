"""Documents show pieces of real files: a comment <!-- FILE --> before a code block says which. Each such block has to
stand in that file, but for white space. Arguments: documents."""

import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
MARKED = re.compile(r"<!-- (\S+) -->\n```\w*\n(.*?)```", re.DOTALL)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def words(text):
    """The text without white space, and with strings that were broken over lines joined."""
    return re.sub(r"\s+", "", text).replace('""', "")


def main(documents):
    wrong = 0
    for document in documents:
        blocks = MARKED.findall(read(document))
        if not blocks:
            sys.exit("%s: no code block is marked with the file that it is from" % document)
        for path, block in blocks:
            if words(block) not in words(read(path)):
                wrong += 1
                print("%s: this is not in %s:\n%s" % (document, path, block), file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main(sys.argv[1:]))
