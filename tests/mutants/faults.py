"""Lists of changes to the code that tests must notice: mutants and planted faults. README.md has the format."""
import re
import sys

from source import Source

PLACES = ("file", "in", "above")  # where the next change is


class Edit:
    """New code instead of a pattern in the body of a function, or (`above`) in front of it."""

    def __init__(self, path, place, name):
        self.path, self.place, self.name, self.old, self.new = path, place, name, "", None

    def apply(self, text):
        """The file's text with the change; (None, why not)."""
        source = Source(self.path, text)
        if self.place == "above":
            at = source.definition(self.name)
            return (None, f"{self.path} does not define {self.name}") if at is None else (f"{text[:at]}{self.new}\n\n{text[at:]}", "")
        found = source.find(self.name, self.old)
        if len(found) != 1:
            return None, f"'{self.old}' stands {len(found)} times in {self.name or 'the whole'} of {self.path}, not once"
        begin, end, stands_for = found[0]
        return source.replaced(begin, end, re.sub(r"[$](\d)", lambda m: stands_for[int(m[1]) - 1], self.new)), ""


class Fault:
    def __init__(self, ident, path, common):
        self.id, self.path, self.fields, self.edits = ident, path, dict(common), []
        self.at = {"file": path, "in": ""}

    def put(self, field, words):
        """A line `field: words` of the list."""
        if field == "file":
            self.at = {"file": words, "in": ""}
        elif field in PLACES:
            self.at = {"file": self.at["file"], field: words}
        if field == "from" or field == "above":
            self.edits.append(Edit(self.at["file"], *list(self.at.items())[1]))
        if field == "from":
            self.edits[-1].old = words
        elif field == "to":
            if not self.edits or self.edits[-1].new is not None:
                raise ValueError("a `to` without a `from` or an `above`")
            self.edits[-1].new = words
        elif field not in PLACES:
            self.fields[field] = words

    def apply(self, tree):
        """Path and changed text of each file; ({}, why not)."""
        texts = {}
        for edit in self.edits:
            try:
                text = texts.get(edit.path) or (tree / edit.path).read_text()
            except OSError as error:
                return {}, f"{self.id}: {edit.path}: {error.strerror}"
            changed, complaint = edit.apply(text)
            if complaint:
                return {}, f"{self.id}: {complaint}: write it anew or strike it"
            texts[edit.path] = changed
        return texts, "" if texts else f"{self.id} changes nothing"


def read(file, kinds, needed):
    """The faults of a list. Its entries have fields of these kinds, and those that are needed; a field above the first entry
    counts for all entries. A line that begins with two spaces goes on with the field above it."""
    common, found, field = {}, [], ""

    def wrong(what):
        sys.exit(f"{file.name}:{number}: {what}: {line}")

    for number, line in enumerate(file.read_text().splitlines() + ["== "], 1):
        if line.startswith("  ") and field:
            words += "\n" + line[2:]
            continue
        if field:
            try:
                found[-1].put(field, words) if found else common.update({field: words})
            except ValueError as error:
                wrong(str(error))
        field, words = "", ""
        heading, given = re.fullmatch(r"== (\S+) (\S+)", line), re.fullmatch(r"(\w+): ?(.*)", line)
        if line.startswith("== ") and found:
            lacking = [name for name in needed if name not in found[-1].fields] + ["to" for e in found[-1].edits if e.new is None]
            if lacking:
                sys.exit(f"{file.name}: {found[-1].id} has no `{lacking[0]}`")
        if heading:
            found.append(Fault(heading[1], heading[2], common))
        elif given and given[1] in (*kinds, *needed, *PLACES, "from", "to"):
            field, words = given[1], given[2]
        elif line and not line.startswith("#") and line != "== ":
            wrong("not a heading or a field")
    return found
