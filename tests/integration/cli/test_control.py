"""What others wrote reaches no terminal as it is: labels at a service, paths, profiles, values."""
import json
import os
import re
import subprocess
import unittest

from clitest import LIMIT, LOCKER, Case

# C0, DEL, C1, line and paragraph separators, what reorders text; a line of output may end.
ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\udc80-\udcff]")
EVIL = ("\x1b[31mred", "\u009b31mred", "\rforged", "\u202egnirts", "\x7f\x7f", "\u2028two", "\udc9b31m", "\u2066x")


class Control(Case):
    def clean(self, done, shown):
        text = (done.stdout + done.stderr).decode("utf-8", "surrogateescape")
        self.assertIsNone(ACTS.search(text), repr(text))
        self.assertIn(shown, text)
        return text

    def run_bytes(self, *arguments, env=None):
        return subprocess.run([LOCKER, *arguments], env=env or self.env, timeout=LIMIT, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)

    def escape(self, evil):
        first = evil[0]
        if "\udc80" <= first <= "\udcff":
            return "\\x%02X" % (ord(first) - 0xdc00)
        return "\\x%02X" % ord(first) if ord(first) < 0x80 else "\\u%04X" % ord(first)

    def test_a_label_in_a_lock_file(self):
        for evil in EVIL:
            with self.subTest(repr(evil)):
                key = "k%d" % EVIL.index(evil)
                new = evil.encode("utf-8", "surrogateescape")
                old = b"A" * len(new)
                holder = self.hold(key, "--owner", old.decode(), "--on-lost", "ignore")
                path = os.path.join(self.directory, "locks", key + ".lock")
                with open(path, "r+b") as file:
                    content = file.read()
                    if content.count(old) == 0:
                        self.fail("the label is not in %r" % content)
                    file.seek(content.index(old))
                    file.write(new)
                for arguments in (("show", key), ("run", "-n", "-v", key, "true")):
                    text = self.clean(self.run_bytes(*arguments), key)
                    self.assertTrue(self.escape(evil) in text or "not known" in text, text)
                seen = self.run_bytes("show", "--json", key).stdout.decode()
                self.assertIsNone(ACTS.search(seen), repr(seen))
                json.loads(seen)
                self.clean(self.run_bytes("break", key), key)

    def test_what_a_user_names(self):
        for evil in EVIL:
            if "\n" in evil:
                continue
            with self.subTest(repr(evil)):
                shown = self.escape(evil)
                path = os.path.join(self.directory, evil)
                self.clean(self.run_bytes("ping", "-f", path), shown)
                self.clean(self.run_bytes("ping", "--profile", evil), shown)
                self.clean(self.run_bytes("ping", env=dict(self.env, LOCKER_URI="file://%s/no/such" % path.replace("%", "%25"))), "")
                config = os.path.join(self.directory, "c.conf")
                with open(config, "wb") as file:
                    file.write(b"[default]\ndriver = file\npath = %s/none/such\n" % path.encode("utf-8", "surrogateescape"))
                self.clean(self.run_bytes("ping", "-f", config), shown)
                self.clean(self.run_bytes("show", evil), "key")
                self.clean(self.run_bytes("run", "--owner", evil, "k", "true"), "owner")
                self.clean(self.run_bytes("run", "k", evil), shown)

    def test_a_history_and_a_comparison(self):
        for evil in EVIL:
            with self.subTest(repr(evil)):
                name = os.path.join(self.directory, "cut" + evil)
                with open(os.fsencode(name), "wb") as file:
                    file.write(b'{"op')
                self.clean(self.run_bytes("check-history", "--allow-empty", name), "last line is incomplete")
                done = self.run_bytes("compare", "-q", "-n", "1", "--quick", "-b", self.uri, "-s", "uncontended", "--json", name)
                self.clean(done, "locker compare -q")


if __name__ == "__main__":
    unittest.main()
