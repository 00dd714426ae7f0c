"""Drivers as modules: each test has a library of its own, with a directory of modules beside it."""
import ctypes
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import threading
import unittest

from clitest import LOCKER, Case
from servers import EtcdServer, RedisServer, ZooServer
from told import report_skip

LIBRARY = os.environ["LOCKER_LIBRARY"]
SHELVES = os.environ["SHELVES"]
DRIVERS = ("redis", "zookeeper", "etcd")
STRANGERS = os.environ["STRANGERS"]
EMBEDDED = os.environ["EMBEDDED"].split()
UNSUPPORTED = 10


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("os_error", ctypes.c_int), ("text", ctypes.c_char * 512)]


class DriverInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("schemes", ctypes.c_char_p),
                ("example", ctypes.c_char_p), ("features", ctypes.c_char_p), ("semantics", ctypes.c_void_p),
                ("parameters", ctypes.c_void_p), ("module", ctypes.c_char_p), ("problem", ctypes.c_char_p)]


class Library:
    """The library, loaded into this process for itself alone, as a program of another language does."""

    def __init__(self, path):
        self.calls = ctypes.CDLL(path)
        self.calls.locker_driver_at.restype = ctypes.c_bool
        self.calls.locker_driver_at.argtypes = [ctypes.c_size_t, ctypes.c_void_p]

    def find(self, scheme):
        """The driver's address and the error."""
        error, driver = Error(), ctypes.c_void_p()
        self.calls.locker_driver_find(scheme.encode(), ctypes.byref(driver), ctypes.byref(error))
        return driver.value, error

    def open(self, uri):
        error, locker = Error(), ctypes.c_void_p()
        status = self.calls.locker_open(uri.encode(), None, ctypes.byref(locker), ctypes.byref(error))
        assert status == 0, error.text
        return locker

    def list(self):
        info = DriverInfo(ctypes.sizeof(DriverInfo))
        count = 0
        while self.calls.locker_driver_at(count, ctypes.byref(info)):
            count += 1
        return count


def in_a_process(test):
    """Runs in a process of its own, since what is loaded stays loaded."""
    def run(self):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                test(self)
                code = 0
            except BaseException:  # pylint: disable=broad-except
                import traceback
                traceback.print_exc()
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
    return run


def mapped():
    """The modules that this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        text = maps.read()
    return [driver for driver in DRIVERS if "/%s.so\n" % driver in text]


class Drivers(Case):
    def drivers(self):
        return json.loads(self.code(0, "drivers", "--json").stdout)["drivers"]


class Modules(Drivers):
    def setUp(self):
        super().setUp()
        self.lib = os.path.join(self.directory, "lib")
        self.modules = os.path.join(self.lib, "locker")
        os.makedirs(self.modules, mode=0o755)
        self.library = shutil.copy(LIBRARY, os.path.join(self.lib, "liblocker.so.1"))
        self.env["LD_LIBRARY_PATH"] = self.lib

    def path(self, name):
        return os.path.join(self.modules, name)

    def plant(self, shelf, name="shelf", text=None):
        """Put a module there, with the text of the sound one or another; the module's path."""
        shutil.copy(os.path.join(SHELVES, "sound.driver"), self.path(name + ".driver"))
        if text is not None:
            self.write(name + ".driver", text)
        return shutil.copy(os.path.join(SHELVES, shelf + ".so"), self.path(name + ".so"))

    def write(self, name, text):
        with open(self.path(name), "wb") as file:
            file.write(text)

    def refused(self, *reasons, where="shelf.so"):
        """Opening says the reasons and names the file; listing says them too, and goes on; neither crashes."""
        said = self.code(78, "ping", "-u", "shelf:").stderr
        self.assertEqual(said.count("\n"), 1, said)
        listed = self.listed("shelf")
        self.assertIsNotNone(listed["problem"])
        for reason in (self.path(where),) + reasons:
            self.assertIn(reason, said)
            self.assertIn(reason, listed["problem"])
        self.assertIn("\n  CAN'T BE USED: ", self.code(0, "drivers").stdout)

    def listed(self, name):
        return [driver for driver in self.drivers() if driver["name"] == name][0]


class Found(Modules):
    def test_beside_the_library(self):
        module = self.plant("sound")
        self.assertIn("the shelf is empty", self.code(69, "ping", "-u", "shelf:").stderr)
        listed = self.listed("shelf")
        self.assertEqual((listed["module"], listed["problem"]), (module, None))
        self.assertRegex(self.code(0, "drivers").stdout, r"\n  module +%s\n" % re.escape(module))
        self.assertIsNone(self.listed("file")["module"])

    def test_the_text_matches_the_driver_table(self):
        self.plant("sound")
        listed = self.listed("shelf")
        self.assertEqual((listed["schemes"], listed["example"], listed["features"]), ("shelf", "shelf:", ""))
        self.assertEqual(listed["semantics"],
                         {"scope": "host", "fairness": "global", "leases": False, "shared": "none", "permits_most": 0, "tokens_persist": True,
                          "survives_restart": False, "can_break": False, "quorum": False, "holder_dies": "Nothing.",
                          "holder_stalls": "Nothing.", "cut_off": "Nothing.", "service_restarts": "Nothing.",
                          "failover": "Nothing.", "token": "None.", "cost": "None."})
        self.assertEqual([(p["name"], p["kind"], p["default"], p["help"]) for p in listed["parameters"]],
                         [("height", "number", "3", "boards"), ("where", "path", "", "the wall")])

    def test_a_text_that_is_not_utf8(self):
        self.plant("sound", text=b"locker-driver 1\nname shelf\nschemes shelf\nfeatures caf\xe9\nscope host\n"
                   b"fairness local\ncost 1 \xa3\nparameter height\nhelp \xe0 la carte\n")
        listed = self.listed("shelf")
        self.assertEqual((listed["features"], listed["semantics"]["cost"]), ("caf?", "1 ?"))
        self.assertEqual([p["help"] for p in listed["parameters"]], ["? la carte"])

    def test_a_text_that_would_drive_a_terminal(self):
        self.plant("sound", text="locker-driver 1\nname sh\x1b[31melf\nschemes shelf\nexample \u009b1m\nfeatures \u202ecaf\nscope host\n"
                   "fairness local\ncost 1\rx\nparameter he\x07ight\nkind number\nhelp \x1b]0;x\n".encode())
        said = self.code(0, "drivers").stdout
        self.assertIsNone(re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", said), repr(said))
        for escaped in ("sh\\x1B[31melf", "\\u009B1m", "\\u202Ecaf", "1\\x0Dx", "he\\x07ight", "\\x1B]0;x"):
            self.assertIn(escaped, said)

    def test_by_the_name_of_a_profile(self):
        self.plant("sound")
        file = os.path.join(self.directory, "config")
        with open(file, "w", encoding="utf-8") as config:
            config.write("[default]\ndriver = shelf\nheight = 4\n")
        self.assertIn("the shelf is empty", self.code(69, "ping", "-f", file).stderr)

    def test_behind_a_script_of_faults(self):
        self.plant("sound")
        if "fault" in [driver["name"] for driver in self.drivers()]:
            self.assertIn("the shelf is empty", self.code(69, "ping", "-u", "fault+shelf:").stderr)
            os.remove(self.path("shelf.so"))
            self.assertIn("shelf.so", self.code(78, "ping", "-u", "fault+shelf:").stderr)

    def test_the_library_by_a_link(self):
        """What the link leads to is the library, and the modules are beside that."""
        self.plant("sound")
        self.env["LD_LIBRARY_PATH"] = os.path.join(self.directory, "links")
        os.mkdir(self.env["LD_LIBRARY_PATH"])
        os.symlink(self.library, os.path.join(self.env["LD_LIBRARY_PATH"], "liblocker.so.1"))
        self.assertIn("the shelf is empty", self.code(69, "ping", "-u", "shelf:").stderr)

    def test_not_by_a_way_that_the_working_directory_decides(self):
        self.plant("sound")
        self.env["LD_LIBRARY_PATH"] = "lib"
        done = subprocess.run([LOCKER, "ping", "-u", "shelf:"], env=self.env, cwd=self.directory,
                              capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 78, done.stderr)
        self.assertNotIn(self.modules, done.stderr)

    def test_not_without_a_text(self):
        self.plant("sound")
        os.remove(self.path("shelf.driver"))
        said = self.code(78, "ping", "-u", "shelf:").stderr
        self.assertIn("no driver for 'shelf:'", said)
        self.assertIn(self.modules, said)

    def test_no_directory(self):
        shutil.rmtree(self.modules)
        said = self.code(78, "ping", "-u", "redis://h").stderr
        for words in ("no driver for 'redis:'", "memory", self.modules + ": No such file or directory"):
            self.assertIn(words, said)
        self.assertIn("file", [driver["name"] for driver in self.drivers()])

    def test_many_schemes_are_cut_in_sight(self):
        schemes = " ".join("a-scheme-of-many-letters-%d" % i for i in range(20))
        self.plant("sound", text=b"locker-driver 1\nname shelf\nschemes %s\nscope host\nfairness local\n"
                   % schemes.encode())
        self.assertEqual(self.listed("shelf")["schemes"], schemes)
        self.assertIn(", ... (", self.code(78, "ping", "-u", "what:").stderr)
        for letters in range(1, 6):
            names = ["s" * letters + str(i) for i in range(10, 100)]
            self.plant("sound", text=b"locker-driver 1\nname shelf\nschemes %s\nscope host\nfairness local\n"
                       % " ".join(names).encode())
            said = self.code(78, "ping", "-u", "what:").stderr
            self.assertIn(said.split(", ... (")[0].split(", ")[-1], names)


class Refused(Modules):
    def test_not_there(self):
        os.remove(self.plant("sound"))
        self.refused("No such file or directory", "install it again")

    def test_no_shared_object(self):
        self.plant("sound")
        for text in (b"", b"text", b"\x7fEL", b"#!/bin/sh\n" + b"x" * 4096):
            self.write("shelf.so", text)
            self.refused("it is not a shared object")

    def test_a_program(self):
        self.plant("sound")
        shutil.copy("/bin/true", self.path("shelf.so"))
        self.refused()

    def test_cut_short(self):
        """Whatever a full disk has left of it: never a signal."""
        module = self.plant("sound")
        with open(module, "rb") as file:
            whole = file.read()
        for length in list(range(64, 1024, 240)) + list(range(1024, len(whole), len(whole) // 12)):
            self.write("shelf.so", whole[:length])
            done = self.locker("ping", "-u", "shelf:")
            self.assertIn(done.returncode, (69, 78), "%d bytes of %d: %s" % (length, len(whole), done.stderr))
            if done.returncode == 69:  # what is missing is not for running it
                self.assertIn("the shelf is empty", done.stderr)
        self.write("shelf.so", whole[:2048])
        self.refused("the file is truncated")

    def test_of_another_machine(self):
        module = self.plant("sound")
        with open(module, "rb") as file:
            whole = bytearray(file.read())
        whole[4] = 3 - whole[4]  # 32 or 64 bits
        self.write("shelf.so", bytes(whole))
        self.refused("for this machine")
        whole[4] = 3 - whole[4]
        whole[18:20] = b"\xf3\x00" if whole[18:20] != b"\xf3\x00" else b"\x3e\x00"  # RISC-V, or x86-64
        self.write("shelf.so", bytes(whole))
        self.refused()

    def test_its_headers(self):
        """64 are read, and no more: the table is at the module's end, and is filled up with such as say nothing."""
        module = self.plant("sound")
        with open(module, "rb") as file:
            whole = file.read()
        word, at, number = ("<Q", 32, 56) if whole[4] == 2 else ("<I", 28, 44)
        first, = struct.unpack_from(word, whole, at)
        size, count = struct.unpack_from("<HH", whole, number - 2)
        table = whole[first:first + size * count]
        for there in (64, 65):
            head = bytearray(whole + b"\0" * (-len(whole) % 8))
            struct.pack_into(word, head, at, len(head))
            struct.pack_into("<H", head, number, there)
            self.write("shelf.so", bytes(head) + table.ljust(size * there, b"\0"))
            if there == 64:
                self.assertIn("the shelf is empty", self.code(69, "ping", "-u", "shelf:").stderr)
        self.refused("for this machine")

    def test_no_regular_file(self):
        os.remove(self.plant("sound"))
        os.mkdir(self.path("shelf.so"))
        self.refused("it is not a regular file")
        os.rmdir(self.path("shelf.so"))
        os.mkfifo(self.path("shelf.so"))
        self.refused("it is not a regular file")

    def test_a_module_that_everybody_may_write(self):
        os.chmod(self.plant("sound"), 0o646)
        self.refused("every user can write to it", "chmod o-w")
        os.chmod(self.path("shelf.so"), 0o664)
        self.code(69, "ping", "-u", "shelf:")
        os.chmod(self.modules, 0o757)
        self.refused("every user can write to a directory above it", "chmod o-w")

    def test_of_another_abi(self):
        self.plant("old")
        self.refused("ABI 1", "build the driver again")

    def test_without_an_entry(self):
        self.plant("nameless")
        self.refused("locker_module")

    def test_with_other_schemes(self):
        self.plant("another")
        self.refused("schemes", "install both again")

    def test_without_its_client_library(self):
        self.plant("needy")
        self.refused("libshelf_absent.so", "is the client library of its service installed?")

    def test_a_module_that_ends_the_process(self):
        """Only who uses it is harmed: a list shows the others too."""
        self.plant("fatal")
        self.assertIn("signal 6", self.listed("shelf")["problem"])
        self.assertIn("file", [driver["name"] for driver in self.drivers()])

    def test_texts_that_say_nothing(self):
        good = b"locker-driver 1\nname shelf\nschemes shelf\nscope host\nfairness local\n"
        for text, reason in ((b"", "first line"), (b"locker-driver 2\n", "first line"),
                             (b"\0\0\0", "File too large"), (good + b"#" * 70000, "File too large"),
                             (good + b"colour red\n", "line 6"), (good + b"leases perhaps\n", "line 6"),
                             (good + b"quorum\n", "line 6"), (good + b"parameter p\ncolour red\n", "line 7"),
                             (good.replace(b"host", b"moon"), "line 4"), (good.replace(b"schemes shelf\n", b""), "is missing")):
            self.plant("sound", text=text)
            self.refused(reason, where="shelf.driver")
        self.plant("sound", text=good)
        self.code(69, "ping", "-u", "shelf:")

    def test_no_text_but_a_pipe(self):
        """Nobody may ever write into it."""
        os.remove(self.plant("sound")[:-len(".so")] + ".driver")
        os.mkfifo(self.path("shelf.driver"))
        self.refused("first line", where="shelf.driver")

    def test_a_broken_module_does_not_affect_others(self):
        self.plant("sound")
        self.plant("sound", name="a-broken-one", text=b"nonsense\n")
        self.code(69, "ping", "-u", "shelf:")
        broken = self.listed("a-broken-one")
        self.assertIn("first line", broken["problem"])
        for name in ("schemes", "example", "features"):
            self.assertEqual(broken[name], "", name)
        for name in ("holder_dies", "cut_off", "token", "cost"):
            self.assertEqual(broken["semantics"][name], "", name)


class Loaded(Modules):
    @in_a_process
    def test_only_when_it_is_used(self):
        """A program that keeps its locks in files or memory loads no service's client library, nor does one that lists
        drivers."""
        library = Library(LIBRARY)
        for uri in ("memory:", "file://%s/locks" % self.directory):
            library.calls.locker_close(library.open(uri))
        self.assertGreaterEqual(library.list(), 2)
        self.assertEqual(mapped(), [])
        loaded = []
        for scheme in DRIVERS:
            driver, error = library.find(scheme)
            if driver is None:  # this build is without it
                self.assertIn(b"no driver for", error.text)
            else:
                loaded.append(scheme)
            self.assertEqual(mapped(), loaded)

    @in_a_process
    def test_once(self):
        """Many threads, and a fork's child, get the same driver."""
        self.plant("sound")
        library = Library(self.library)
        found, gate = [], threading.Barrier(16)

        def find():
            gate.wait()
            found.append(library.find("shelf")[0])

        threads = [threading.Thread(target=find) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertIsNotNone(found[0])
        self.assertEqual(found, [found[0]] * 16)
        os.remove(self.path("shelf.driver"))  # what has been loaded stays
        child = os.fork()
        if child == 0:
            os._exit(0 if library.find("shelf")[0] == found[0] else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    @in_a_process
    def test_installed_later(self):
        library = Library(self.library)
        self.assertEqual(library.find("shelf")[1].status, UNSUPPORTED)
        before = library.list()
        os.remove(self.plant("sound"))
        for _ in range(3):
            self.assertEqual(library.find("shelf")[1].status, UNSUPPORTED)
        self.plant("sound")
        self.assertIsNotNone(library.find("shelf")[0])
        self.assertEqual(library.list(), before + 1)

    @in_a_process
    def test_by_its_scheme_or_nothing(self):
        library = Library(self.library)
        error = Error()
        self.assertNotEqual(library.calls.locker_driver_find(None, None, ctypes.byref(error)), 0)
        self.assertEqual(library.calls.locker_driver_find(b"memory", None, None), 0)


class Beside(Drivers):
    """In a program that has other copies of the client libraries, whose functions come first wherever a symbol is looked up."""

    def lock_beside(self, kind, library):
        if library not in EMBEDDED:
            report_skip(self.id(), "no archive of %s, or LOCKER_PRIVATE_CLIENTS=OFF" % library)
            return
        server = kind()
        self.addCleanup(server.remove)
        server.begin()
        self.env["LD_PRELOAD"] = STRANGERS
        for options in ([], ["--shared"]):
            self.code(0, "run", "-u", server.uri, *options, "key", "env", "-u", "LD_PRELOAD", "true")

    def test_redis(self):
        self.lock_beside(RedisServer, "PkgConfig::HIREDIS")

    def test_zookeeper(self):
        self.lock_beside(ZooServer, "ZooKeeper::st")

    def test_etcd(self):
        self.lock_beside(EtcdServer, "PkgConfig::PROTOBUF_C")

    def test_symbols(self):
        """What a module looks up has a version, or is one that every shared object looks up. Debian's archive of nghttp2 can't be
        embedded; each libnghttp2 of the soname 14 will do."""
        embedded = {"redis": "PkgConfig::HIREDIS", "zookeeper": "ZooKeeper::st", "etcd": "PkgConfig::PROTOBUF_C"}
        for driver in self.drivers():
            if embedded.get(driver["name"]) not in EMBEDDED:
                continue
            symbols = subprocess.run(["nm", "-D", "--undefined-only", "--with-symbol-versions", driver["module"]],
                                     stdout=subprocess.PIPE, text=True, check=True).stdout
            wanted = [line.split()[-1] for line in symbols.splitlines() if line.split()[0] == "U"]
            self.assertIn("locker_error_set@LOCKER_1", wanted)
            self.assertEqual([name for name in wanted if not re.search("@(GLIBC|LOCKER|OPENSSL)_|^nghttp2_", name)], [])

    def test_openssl(self):
        """Its symbols have versions, so only a copy without any takes their place: it is refused where it is another release."""
        if "TLS" not in EMBEDDED:
            report_skip(self.id(), "built without OpenSSL")
            return
        for scheme in ("rediss", "etcds"):
            self.env.pop("LD_PRELOAD", None)
            self.wrong(69, "127.0.0.1", "ping", "-u", scheme + "://127.0.0.1:1")
            self.env["LD_PRELOAD"] = STRANGERS
            self.wrong(78, "OpenSSL", "ping", "-u", scheme + "://127.0.0.1:1")


if __name__ == "__main__":
    unittest.main()
