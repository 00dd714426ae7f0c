#!/usr/bin/env python3
"""Compare the manual pages with the program: each option of a subcommand's help is in its page, and each parameter, scheme
and key of `locker drivers --json` is in locker-uri(7) or locker-drivers(1). Arguments: the program, the folder of the pages."""
import json
import os
import re
import subprocess
import sys

SUBCOMMANDS = ("run", "show", "break", "ping", "drivers", "check-history", "compare")


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()


def page(folder, name):
    text = output("groff", "-mdoc", "-rLL=400n", "-Tutf8", "-P-cbou", os.path.join(folder, name))
    return text.replace("\u2010", "-").replace("\u2212", "-")


def missing(program, folder):
    """Yield what the program has and its page lacks."""
    general = page(folder, "locker.1")
    for name in SUBCOMMANDS:
        text = page(folder, f"locker-{name}.1") + general
        options = re.findall(r"(?m)^\s+(?:-\w, )?(--[a-z-]+)", output(program, "help", name))
        if not options:
            yield f"locker help {name} shows no option"
        yield from (f"locker-{name}.1 lacks {word}" for word in options if not re.search(re.escape(word) + r"\b", text))
    uri, drivers = page(folder, "locker-uri.7"), page(folder, "locker-drivers.1")
    known = json.loads(output(program, "drivers", "--json"))
    parameters = known["common_parameters"] + [one for driver in known["drivers"] for one in driver["parameters"]]
    yield from (f"locker-uri.7 lacks {one['name']}" for one in parameters if not re.search(rf"\b{one['name']}\b", uri))
    for driver in known["drivers"]:
        schemes = [scheme for scheme in driver["schemes"].split() if not scheme.startswith("valkey")]
        yield from (f"locker-uri.7 lacks the scheme {scheme}" for scheme in schemes if scheme not in uri)
        yield from (f"locker-drivers.1 lacks the key {key}" for key in driver if key not in drivers)


def main():
    found = list(missing(*sys.argv[1:]))
    print("\n".join(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
