"""What the tests of locker compare share: running it, what it found, and what it may have left behind."""
import glob
import json
import os
import select
import subprocess
import time

from clitest import KEEP, LOCKER, Case

LIMIT = 300.0


class Found:
    """The lines of --json: results by (scenario, backend), and the history."""

    def __init__(self, path):
        with open(path) as file:
            lines = [json.loads(line) for line in file]
        notes = [line for line in lines if line["op"] == "note"]
        self.history = [line for line in lines if line["op"] != "note"]
        self.comparison, = [note for note in notes if note["kind"] == "comparison"]
        self.results = {(note["scenario"], note["backend"]): note for note in notes if note["kind"] == "result"}

    def sample(self, scenario, backend, name, part="max"):
        return self.results[scenario, backend]["samples"][name][part]

    def of(self, scenario, backend):
        return [line for line in self.history
                if line.get("scenario") == scenario and line.get("backend") == backend]


class CompareCase(Case):
    """Servers and directories of each run are in a directory of the test's own."""

    def setUp(self):
        super().setUp()
        self.scratch = os.path.join(self.directory, "t")
        os.mkdir(self.scratch)
        self.env["TMPDIR"] = self.scratch
        self.json = os.path.join(self.directory, "found.jsonl")

    def compare(self, *arguments, code=0):
        done = subprocess.run([LOCKER, "compare", "--quick", "--json", self.json] + list(arguments), env=self.env,
                              timeout=LIMIT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assert_nothing_is_left()
        self.output = done.stdout
        return Found(self.json)

    def running(self):
        """Processes that have our scratch directory in their arguments or environment, or as their directory:
        Redis' server writes its title over the first two."""
        found = []
        for path in glob.glob("/proc/[0-9]*"):
            try:
                with open(path + "/cmdline", "rb") as file:
                    command = file.read()
                with open(path + "/environ", "rb") as file:
                    environment = file.read()
                directory = os.readlink(path + "/cwd").encode()
            except OSError:
                continue  # it has ended
            if self.scratch.encode() in command + environment + directory:
                found.append((int(os.path.basename(path)), command.replace(b"\0", b" ").decode()))
        return found

    def assert_nothing_is_left(self):
        self.assertEqual(self.running(), [])
        self.assertEqual(os.listdir(self.scratch), [])

    def assert_all_goes(self):
        """After an end that waits for nobody: the same, in a moment."""
        end = time.monotonic() + 30
        while (self.running() or os.listdir(self.scratch)) and time.monotonic() < end:
            select.select([], [], [], 0.02)  # nobody tells of the end of another's children
        self.assert_nothing_is_left()


__all__ = ["CompareCase", "Found", "KEEP", "LIMIT", "LOCKER"]
