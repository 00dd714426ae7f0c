"""What locker check-history reads and refuses, its options and what it prints."""
import json
import os
import unittest

from lines import HistoryCase, allows, asked, at, cycle, ends, got, line, says, unlocked, unlocks


def without(one, name):
    return {field: value for field, value in one.items() if field != name}


class Refused(HistoryCase):
    def refused(self, names, *lines):
        """Exit code 65, and one line with file and line of the last one."""
        path = self.write(*lines)
        done = self.wrong(65, names, "check-history", path)
        self.assertIn("%s:%d: " % (path, len(lines)), done.stderr)

    def test_what_is_no_json_object(self):
        for text in ("", "x", "[]", "1", "{", '{"t":1,"t":2}', '{"op":"lock"} {}', "\0", "\xff", "{'t':1}", "null"):
            with self.subTest(text):
                self.refused("not a JSON object", json.dumps(asked(1, 1)), text)

    def test_missing_fields(self):
        for one, fields in ((asked(1, 1), ("t", "process", "op", "phase", "key", "handle")),
                            (says(5, True), ("sent", "held", "key")),
                            (line(1, 1, "write", "ok", token=1), ("token", "key")),
                            (line(1, 1, "lease", "info", handle=1, until=5), ("valid_until",)),
                            (allows(1, "overlap"), ("kind",)),
                            (dict(t=1, process=1, op="fault", phase="begin", kind="x"), ("kind",))):
            for field in fields:
                with self.subTest(op=one["op"], field=field):
                    self.refused("the field '%s' is missing" % field, without(one, field))

    def test_wrong_types(self):
        for field, values in (("t", ("1", 1.5, None, True, -1)), ("process", ("1", -1)), ("key", (1, None)),
                              ("handle", ("1",)), ("op", (1,)), ("phase", (1,)), ("token", (-1, "5")),
                              ("run", ("1", -1)), ("backend", (1,)), ("t", (10 ** 30,))):
            for value in values:
                with self.subTest(field=field, value=value):
                    self.refused("not a JSON object" if value == 10 ** 30 else "'%s' must be" % field,
                                 dict(asked(1, 1), **{field: value}))

    def test_unknown_words(self):
        self.refused("no op 'loc'", dict(asked(1, 1), op="loc"))
        self.refused("no check 'overlaps' to allow", allows(1, "overlaps"))
        self.refused("no phase 'done'", dict(asked(1, 1), phase="done"))
        self.refused("'queue' has no phase 'ok'", line(1, 1, "queue", "ok", handle=1))
        self.refused("'lock' has no phase 'begin'", line(1, 1, "lock", "begin", handle=1))
        self.refused("no mode 'upgrade'", asked(1, 1, mode="upgrade"))
        self.refused("mode 'shared' and permits exclude each other", asked(1, 1, mode="shared", permits=2))
        self.refused("'permits' must be a non-negative integer", asked(1, 1, permits=-1))

    def test_an_answer_before_its_question(self):
        self.refused("'sent' (%d) is later than 't'" % at(7), says(5, True, sent=7))

    def test_what_does_not_belong_together(self):
        begin = [asked(1, 1), got(2, 1)]
        for names, lines in (("comes before the call for the lock", [got(1, 1)]),
                             ("comes before the call for the lock", [asked(1, 2), got(2, 1)]),
                             ("comes before the call for the lock", [asked(1, 1), got(2, 1, 2)]),
                             ("already has an answer", begin + [got(3, 1)]),
                             ("reuses a handle", begin + [asked(3, 1)]),
                             ("comes without a granted lock", [asked(1, 1), unlocks(2, 1)]),
                             ("comes without a granted lock",
                              [asked(1, 1), line(2, 1, "lock", "fail", handle=1), unlocks(3, 1)]),
                             ("no invoke line", begin + [unlocked(3, 1)]),
                             ("was already invoked", begin + [unlocks(3, 1), unlocks(4, 1)]),
                             ("a call of another operation", [asked(1, 1), got(2, 1, op="try")]),
                             ("another key", [asked(1, 1), dict(got(2, 1), key="other")]),
                             ("had ended before", begin + [ends(3, 1), unlocks(4, 1)])):
            with self.subTest(names):
                self.refused(names, *lines)

    def test_a_cut_line_that_is_not_the_last(self):
        self.refused("not a JSON object", *[json.dumps(asked(1, 1)), '{"t":2,"proc'])


class Read(HistoryCase):
    def test_a_last_line_that_was_cut(self):
        whole = "".join(json.dumps(one) + "\n" for one in cycle(1, 10, 20))
        path = os.path.join(self.directory, "cut.jsonl")
        for end in range(len(whole) + 1):
            with open(path, "w", encoding="utf-8") as file:
                file.write(whole[:end])
            done = self.locker("check-history", "--json", "--allow-empty", "--allow", "waiters", path)
            self.assertEqual(done.returncode, 0, (end, done.stderr))
            report = json.loads(done.stdout)
            lines, rest = whole[:end].count("\n"), whole[:end].rpartition("\n")[2]
            complete = rest.endswith("}")  # no newline, and yet a whole line
            self.assertEqual(report["lines"], lines + complete)
            self.assertEqual(report["files"][0]["cut_line"], lines + 1 if rest and not complete else None)
        self.assertIn("cut.jsonl:4: the last line is incomplete",
                      self.with_text(path, whole[:-5], "--allow", "waiters"))

    def with_text(self, path, text, *options):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return self.code(0, "check-history", *options, path).stdout

    def test_a_last_line_that_is_whole_and_wrong(self):
        path = os.path.join(self.directory, "h.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(without(asked(1, 1), "key")))
        self.wrong(65, "the field 'key' is missing", "check-history", path)

    def test_several_files_are_one_history(self):
        one = self.write(*cycle(1, 10, 20), name="1.jsonl")
        two = self.write(*cycle(2, 15, 30), name="2.jsonl")
        done = self.code(1, "check-history", two, one)
        self.assertIn("2 files, 8 lines: 1 key, 2 processes, 2 calls, 2 grants, 0 faults\n", done.stdout)
        self.assertIn("overlap: %s:2: lock of 'k' by process 2 was granted while another certainly held it, "
                      "for 5.000 ms (%s:2, process 1)\n" % (two, one), done.stdout)
        self.code(0, "check-history", one)
        self.code(0, "check-history", two)

    def test_unknown_fields_are_ignored(self):
        lines = [dict(one, colour="red", nested={"a": [1]}) for one in cycle(1, 10, 20)]
        self.code(0, "check-history", self.write(*lines))

    def test_standard_input_and_nothing_at_all(self):
        with open(self.write(*cycle(1, 10, 20)), "rb") as file:
            self.assertIn("1 file, 4 lines", self.code(0, "check-history", "-", stdin=file).stdout)
        for options in ([], ["--json"], ["-q"]):
            self.wrong(65, "--allow-empty", "check-history", *options, self.write())
        self.assertIn("0 lines: 0 keys", self.code(0, "check-history", "--allow-empty", self.write()).stdout)

    def test_what_cannot_be_read(self):
        self.wrong(66, "missing.jsonl", "check-history", os.path.join(self.directory, "missing.jsonl"))
        self.wrong(66, self.directory, "check-history", self.directory)

    def test_the_example_of_the_document(self):
        document = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "history.md")
        with open(document, encoding="utf-8") as file:
            example = file.read().partition("```json\n")[2].partition("```")[0]
        self.code(0, "check-history", self.write(*example.splitlines()))


class Options(HistoryCase):
    overlap = cycle(1, 10, 20) + cycle(2, 15, 30)

    def test_usage(self):
        path = self.write(*self.overlap)
        for names, words in (("FILE is missing", []), ("unknown option '--bad'", ["--bad", path]),
                             ("no check 'overlaps'", ["--promise", "overlaps", path]),
                             ("no check ''", ["--allow", "", path]), ("no check 'x'", ["--allow", "fifo,x", path]),
                             ("--promise tokens takes no limit", ["--promise", "tokens=3", path]),
                             ("--promise", ["--promise", "overlap=x", path]),
                             ("no check 'overlap=1'", ["--allow", "overlap=1", path]),
                             ("needs a value", ["--promise"])):
            with self.subTest(words):
                self.wrong(64, names, "check-history", *words)

    def test_the_last_option_counts(self):
        path = self.write(*self.overlap)
        self.code(1, "check-history", path)
        self.code(0, "check-history", "--allow", "overlap,release", path)
        self.code(1, "check-history", "--allow", "overlap,release", "--promise", "overlap", path)
        self.code(0, "check-history", "--promise", "overlap=5ms", "--allow", "release", path)

    def test_quiet_and_verbose(self):
        lines = [one for n in range(20) for one in (asked(n, n), got(100 + n, n))] + [ends(200, n) for n in range(20)]
        path = self.write(*lines)
        self.assertEqual(self.code(1, "check-history", "-q", path).stdout, "")
        few = self.code(1, "check-history", path).stdout
        self.assertEqual(few.count("\noverlap: "), 11)
        allowed = self.code(0, "check-history", "--allow", "overlap", path).stdout
        self.assertEqual(allowed.count("\noverlap: "), 0)
        allowed = self.code(0, "check-history", "-v", "--allow", "overlap", path).stdout
        self.assertEqual(allowed.count("\noverlap: "), 19)
        self.assertIn("overlap: 9 more (-v shows all)\n", few)
        self.assertEqual(self.code(1, "check-history", "-v", path).stdout.count("\noverlap: "), 19)

    def test_a_key_that_would_harm_a_terminal(self):
        lines = [dict(one, key="a\033[2Jb") for one in self.overlap]
        self.assertNotIn("\033", self.code(1, "check-history", self.write(*lines)).stdout)

    def test_help(self):
        self.assertIn("--promise LIST", self.code(0, "check-history", "--help").stdout)
        self.assertIn("check-history", self.code(0, "help").stdout)


if __name__ == "__main__":
    unittest.main()
