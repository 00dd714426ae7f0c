#!/usr/bin/env python3
"""Do what README.md tells a newcomer to do, and check what comes out.

    readme.py BUILD WORK

BUILD is a build folder of the whole library, WORK a folder for scratch files. The lines of README.md are run as they stand,
with these exceptions: BUILD is installed in place of build-release, so that the library is not compiled once more
(script/bare compiles it); the program's locks are in WORK; the commands that run under a lock are scripts that say so.
"""
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SIZE_MAX = 10 * 1024 # bytes of README.md: a newcomer reads it in five minutes
BUILD_LINE = "cmake --build --preset release\n"
INSTALL = "cmake --install build-release "


def blocks(text, section):
    """Return the code blocks of a section, as (language, code)."""
    found = re.search(r"^## %s\n(.*?)(?=^## |\Z)" % re.escape(section), text, re.M | re.S)
    if not found:
        sys.exit("readme.py: README.md has no section '%s'" % section)
    return re.findall(r"^```(\w*)\n(.*?)^```$", found.group(1), re.M | re.S)


def replace(code, old, new):
    """Replace what must occur once."""
    if code.count(old) != 1:
        sys.exit("readme.py: '%s' stands %d times, not once, in:\n%s" % (old.strip(), code.count(old), code))
    return code.replace(old, new)


def shell(script, folder, environment, code=0):
    """Run a script and return its output. Exit unless it ends with `code`."""
    done = subprocess.run(["sh", "-eu", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != code:
        sys.exit("readme.py: this ended with %d, not %d:\n%s\n%s" % (done.returncode, code, script, done.stdout))
    return done.stdout


def expect(output, words):
    if words not in output:
        sys.exit("readme.py: '%s' is missing in:\n%s" % (words, output))


def try_c(text, build, work, environment):
    """Configure, install, compile and run, all in one shell. Return its environment."""
    (_, install), (_, program), (_, compile_and_run) = blocks(text, "A minute of C")
    clone = os.path.join(work, "clone")
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns("build*", ".git"))
    with open(os.path.join(clone, "shop.c"), "w", encoding="utf-8") as file:
        file.write(replace(program, "file:///tmp/shop-locks", "file://%s/shop-locks" % work))
    install = replace(replace(install, BUILD_LINE, ""), INSTALL, "cmake --install '%s' " % build)
    expect(shell(install + compile_and_run, clone, environment), "held, fencing token ")
    with open(os.path.join(clone, "build-release", "CMakeCache.txt"), encoding="utf-8") as file:
        expect(file.read(), "LOCKER_FAULT:BOOL=OFF\n")
    export = install[install.index("export "):]
    return dict(line.split("=", 1) for line in shell(export + "env", clone, environment).splitlines() if "=" in line)


def say_so(folder, name):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\necho "%s has token $LOCKER_TOKEN, slot ${LOCKER_SLOT-none}"\n' % name)
    os.chmod(path, 0o755)


def try_shell(text, work, environment):
    ((_, lines),) = blocks(text, "A minute of shell")
    folder = os.path.join(work, "jobs")
    os.mkdir(folder)
    for name in ("tar", "make", "report.sh", "search", "encode"):
        say_so(folder, name)
    environment = dict(environment, PATH=folder + ":" + environment["PATH"], LOCKER_URI="file://%s/locks" % work)
    for line in lines.splitlines():
        name = re.search(r"-- (?:\./)?(\S+)", line)
        output = shell(line, folder, environment, 1 if line.startswith("locker break ") else 0)
        expect(output, "%s has token " % name.group(1) if name else "deploy/web")
        expect(output, "slot 0" if " -p " in line else "")


def try_cmake(text, work, environment):
    (_, rules), = [block for block in blocks(text, "Install and link") if block[0] == "cmake"]
    clone = os.path.join(work, "clone")
    with open(os.path.join(clone, "CMakeLists.txt"), "w", encoding="utf-8") as file:
        file.write("cmake_minimum_required(VERSION 3.22)\nproject(shop C)\nadd_executable(shop shop.c)\n" + rules)
    prefix = re.search(r"-DCMAKE_PREFIX_PATH=\S+", rules).group(0)
    output = shell("cmake -G Ninja -S . -B with-cmake %s && cmake --build with-cmake && with-cmake/shop" % prefix,
                   clone, environment)
    expect(output, "held, fencing token ")


def main():
    build, work = (os.path.realpath(path) for path in sys.argv[1:])
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(os.path.join(work, "home"))
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        text = file.read()
    if len(text.encode()) > SIZE_MAX:
        sys.exit("readme.py: README.md has %d bytes, more than %d" % (len(text.encode()), SIZE_MAX))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LOCKER_", "XDG_"))}
    environment.setdefault("PKG_CONFIG_PATH", "")
    environment = try_c(text, build, work, dict(environment, HOME=os.path.join(work, "home")))
    try_shell(text, work, environment)
    try_cmake(text, work, environment)


main()
