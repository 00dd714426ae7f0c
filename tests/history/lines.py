"""Histories written by hand, for the tests of locker check-history. Times are milliseconds here."""
import json
import os

from clitest import Case

MS = 1000000
START = 10 ** 12


def at(ms):
    return START + int(ms * MS)


def line(ms, process, op, phase, **fields):
    """One line as a dict. `until` and `sent` are milliseconds of the same clock, `ttl` is milliseconds."""
    out = dict(t=at(ms), process=process, op=op, phase=phase)
    if op not in ("fault", "end", "allow"):
        out["key"] = "k"
    for name, unit in (("until", "valid_until"), ("sent", "sent")):
        if name in fields:
            out[unit] = at(fields.pop(name))
    if "ttl" in fields:
        out["ttl"] = fields.pop("ttl") * MS
    out.update(fields)
    return out


def asked(ms, process, handle=1, op="lock", **more):
    return line(ms, process, op, "invoke", handle=handle, **more)


def got(ms, process, handle=1, op="lock", **more):
    return line(ms, process, op, "ok", handle=handle, **more)


def unlocks(ms, process, handle=1, **more):
    return line(ms, process, "unlock", "invoke", handle=handle, **more)


def unlocked(ms, process, handle=1, phase="ok", **more):
    return line(ms, process, "unlock", phase, handle=handle, **more)


def cycle(process, begin, end, handle=1, **more):
    """Asked, got, unlocked, 1 ms for each call."""
    return [asked(begin - 1, process, handle), got(begin, process, handle, **more), unlocks(end, process, handle),
            unlocked(end + 1, process, handle)]


def says(ms, held, sent=None, **more):
    """What the service says, asked by process 99."""
    return line(ms, 99, "server", "info", sent=ms - 1 if sent is None else sent, held=held, **more)


def allows(ms, check, **more):
    return line(ms, 99, "allow", "info", kind=check, **more)


def ends(ms, process, **more):
    return line(ms, process, "end", "info", **more)


class HistoryCase(Case):
    def write(self, *lines, name="history.jsonl"):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            for one in lines:
                file.write((one if isinstance(one, str) else json.dumps(one)) + "\n")
        return path

    def judge(self, lines, *options):
        """The report as JSON; its exit code agrees with what it says."""
        path = self.write(*lines)
        done = self.locker("check-history", "--json", *options, path)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["broken"], done.returncode == 1)
        return report

    def broken(self, lines, *options):
        """The names of the checks that are broken."""
        report = self.judge(lines, *options)
        return sorted(name for name, check in report["checks"].items() if check["result"] == "broken")
