"""A copy of a commit with a build folder of its own, in which a fault is planted, built and looked for: what script/mutate
and script/simulate --planted work in."""
import os
import signal
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent


def git(*words, cwd=TOP):
    return subprocess.run(("git", *words), cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


def run(command, timeout, cwd):
    """Status (None after the timeout, when the whole group is killed) and output."""
    child = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             errors="replace", start_new_session=True)
    try:
        said, _ = child.communicate(timeout=timeout)
        return child.returncode, said
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        said, _ = child.communicate()
        return None, said


class Workshop:
    """Nothing but these targets is built; none: all."""

    def __init__(self, folder, commit, *targets):
        self.folder, self.build = folder, folder.resolve() / "build"
        if not (folder / ".git").exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(("git", "clone", "-q", "--no-checkout", str(TOP), str(folder)), check=True)
        git("fetch", "-q", "origin", cwd=folder)
        git("checkout", "-q", "--force", "--detach", commit, cwd=folder)
        git("clean", "-fdq", "-e", "build", cwd=folder)
        self.step("cmake", "--preset", "dev")
        status, said = self.make(*targets)
        if status != 0:
            sys.exit(f"the tree itself does not build:\n{said[-2000:]}")

    def step(self, *command):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")

    def make(self, *targets):
        """Status and output."""
        return run(("ninja", "-C", "build", *targets), 600, self.folder)
