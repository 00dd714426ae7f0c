#!/usr/bin/env python3
"""Write the manual pages of section 3 from the comments of the public headers.

    reference.py FOLDER VERSION HEADER...

FOLDER gets a page for each function, each type and each header: liblocker(3) for locker.h, liblocker-NAME(3) for NAME.h. Other
*.3 files in FOLDER are removed. All sentences are from the comments. If a comment or a declaration has a form that this
program does not know, the program prints the place and what to do, and ends with 1.

The form of a comment: "  - " or "  1. " begins an item of a list, and the item's other lines are indented as its text. Other
indented lines, after an empty line, are an example. "---" underlines a heading. Code stands between backticks. RETURN VALUE
gets a function's comment from the paragraph that begins with "Returns" to the end. If there is no such paragraph, it gets the
sentences that begin with "Return", "True if", "NULL:", "-1:" or similar words.
"""
import collections
import glob
import os
import re
import sys
import textwrap

COMMENT = r"/\*(?:[^*]|\*(?!/))*\*/"
BRACES = rf"\{{(?:{COMMENT}|[^{{}}/])*\}}"
TOKEN = re.compile(rf"(?P<comment>{COMMENT})|(?P<define>#define \w+(?:.*\\\n)*.*)|(?P<inline>static inline [^;{{/]*){BRACES}|"
                   rf"(?P<code>\w[^;{{/]*(?:{BRACES}[^;{{/]*)?;)")
MEMBER = rf"(?P<code>[^\s@/][^@/]*)@?[ \t]*(?P<after>(?=/..<){COMMENT})?|(?P<comment>{COMMENT})|\s"  # @: ',' or ';'
FUNCTION = re.compile(r"(?:LOCKER_API|static inline) (?P<prototype>(?P<result>.*?[ *])(?P<name>\w+)\(.*\)) ?;?$")
CALLBACK = re.compile(r"typedef .*?\(\*(?P<name>\w+)\)\(.*\);$")
TYPE = re.compile(r"(?:typedef )?(?P<kind>struct|enum)\s*(?P<tag>\w*)\s*(?P<body>\{.*\})?\s*(?P<alias>\w*)\s*;$", re.S)
ITEM = re.compile(r" +(-|\d+\.) (?=\S)")
RETURNS = re.compile(r"(Returns?|True if|False if|NULL only if|NULL:|-?\d+:)(?!\w)")
BOXES = str.maketrans("─│┌┐└┘├▶", "-|+++++>")  # a page is ASCII, for terminals of every locale
SPECIAL = str.maketrans({"\\": r"\(rs", "~": r"\(ti", "^": r"\(ha", "`": r"\(ga", "'": r"\(aq", "-": r"\-"})
FEW = 10  # a type's page refers to the functions that use the type if they are not more
UNKNOWN = "write this as the other declarations, after their '/** */' comment; or teach cmake/reference.py this form"

Member = collections.namedtuple("Member", "names codes doc")  # no names: a comment for the members after it
Entry = collections.namedtuple("Entry", "kind name code doc returns members", defaults=((), ()))  # doc, returns: blocks
Header = collections.namedtuple("Header", "name page doc sections")  # sections: each [title, blocks, entries]


class Unclear(Exception):
    """A header has a form that this program does not know. Arguments: the line, what to do."""


# ------------------------------------------------------------------ comments: blocks, each (kind, text or blocks)
def blocks_of(comment, line):
    lines = []
    for number, text in enumerate(re.sub(r"\s*\*/$", "", comment).split("\n"), line):
        match = re.match(r"/\*+<? ?(.*)$" if number == line else r"\s*\*(?: (.*))?$", text)
        if not match or re.search(r"[^ -~]", text):
            raise Unclear(number, "begin each line of the comment with ' * ', and use ASCII without tabs")
        lines.append((number, (match[1] or "").rstrip()))
    blocks = blocks_of_lines(lines)
    if blocks and blocks[0][0] != "text":
        raise Unclear(line, "begin the comment with a sentence")
    return blocks


def blocks_of_lines(lines):
    def end(belongs):
        return next((more for more in range(at + 1, len(lines)) if not belongs(lines[more][1])), len(lines))

    found, at, free = [], 0, True  # free: an example may begin here
    while at < len(lines):
        number, text = lines[at]
        item, last = ITEM.match(text), at + 1
        if item:
            last = end(lambda more: not more[:item.end()].strip())
            found.append((item[1], blocks_of_lines([(where, more[item.end():]) for where, more in lines[at:last]])))
        elif text.startswith(" "):
            if not free or not text.startswith("  "):
                raise Unclear(number, "indent this line as the text of its list item; or make it an example: indent it by 2 or "
                                      "more, after an empty line")
            last = end(lambda more: not more or more.startswith(" ") and not ITEM.match(more))
            found.append(("example", textwrap.dedent("\n".join(more for _, more in lines[at:last])).strip("\n")))
        elif text and at + 1 < len(lines) and re.match("-+$", lines[at + 1][1]):
            last = at + 2
            found.append(("heading", text))
        elif text:
            last = end(lambda more: more and not more.startswith(" "))
            found.append(("text", " ".join(more for _, more in lines[at:last])))
            for where, more in lines[at:last]:
                if re.match(r"[-*] |[@\\]\w", more):
                    raise Unclear(where, "indent '- ' of a list item by 2, and use no tag of another generator")
            if found[-1][1].count("`") % 2:
                raise Unclear(number, "close the backtick in this paragraph")
        free = not lines[last - 1][1] or found[-1][0] == "heading"
        at = last
    return found


def sentences(text):
    return re.split(r"(?<=[^.][.?!])\s+|(?<=[^.][.?!]\))\s+", text)


def purpose(doc):
    return sentences(doc[0][1])[0]


def divided(doc):
    """Divide a function's comment into DESCRIPTION and RETURN VALUE."""
    description, returns = [], [("text", purpose(doc))] if RETURNS.match(purpose(doc)) else []
    for at, (kind, text) in enumerate(doc):
        if at and kind == "text" and re.match("Returns|Blocks and returns", text):
            return doc[:at], returns + doc[at + (text == "Returns:"):]
    for at, (kind, text) in enumerate(doc):
        if kind == "text":
            moved = [part for part in sentences(text)[at == 0:] if RETURNS.match(part)]
            returns = returns + [("text", part) for part in moved]
            text = " ".join(part for part in sentences(text) if part not in moved)
        description += [(kind, text)] if text else []
    return description, [("-", [block]) for block in returns] if len(returns) > 1 else returns


# ------------------------------------------------------------------ headers
def squeezed(code):
    return " ".join(re.sub(COMMENT, " ", code).replace("\\\n", " ").split())


def wrapped(code, indent=""):
    """Break a declaration between parameters."""
    head, bracket, rest = code.partition("(")
    return textwrap.fill(head + bracket + re.sub("(?<!,) ", "\xa0", rest), 72, initial_indent=indent, break_on_hyphens=False,
                         subsequent_indent=indent + " " * 8, break_long_words=False).replace("\xa0", " ")


def members_of(body, line, separator):
    found, doc, group = [], None, None  # group: the comment before the last member, for members without a comment, too
    for match in re.finditer(MEMBER.replace("@", separator), body):
        after, comment = match["after"], match["comment"] or ""
        at = line + body.count("\n", 0, match.start("after") if after else match.start())
        if doc and (comment or after) or comment.startswith("/**<"):
            raise Unclear(at, "put one comment at a member: '/** */' before it, or '/**< */' after it")
        if comment or after:
            group = None
        if comment.startswith("/**"):
            doc = blocks_of(comment, at)
        elif comment:
            found.append(Member([], [], blocks_of(comment, at)))
        elif match["code"]:
            code = squeezed(match["code"])
            names = re.findall(r"\(\*(\w+)\)", code)[:1] or re.findall(r"(\w+)(?:\[[^]]*\])?(?: =.*?)?(?:,|$)", code)
            if group:
                found[-1] = Member(found[-1].names + names, found[-1].codes + [code], group)
            else:
                found.append(Member(names, [code], blocks_of(after, at) if after else doc))
                doc, group = None, doc
    if doc:
        raise Unclear(at, "put a member after the '/** */' comment")
    return found


def entry_of(code, doc, line):
    flat, members = squeezed(code), []
    function, callback, plain = FUNCTION.match(flat), CALLBACK.match(flat), TYPE.match(code)
    if not doc or not function and not callback and not plain:
        raise Unclear(line, UNKNOWN)
    if callback:
        return Entry("type", callback["name"], wrapped(flat), doc)
    if function:
        description, returns = (doc, ()) if function["result"] == "void " else divided(doc)
        if not returns and function["result"] != "void ":
            raise Unclear(line, f"say what {function['name']}() returns, in a sentence that begins with 'Returns'")
        return Entry("function", function["name"], wrapped(function["prototype"] + ";"), description, returns)
    if plain["body"]:
        separator = ";" if plain["kind"] == "struct" else ","
        members = members_of(plain["body"][1:-1], line + code.count("\n", 0, plain.start("body")), separator)
        codes = [member for group in members for member in group.codes]
        if not plain["alias"] and not plain["tag"]:
            return Entry("constant", members[0].names[0], ", ".join(codes), doc, (), members)
        codes = [wrapped(member + separator, "    ") for member in codes]
        flat = "\n".join([flat[:flat.index("{") + 1], *codes, flat[flat.rindex("}"):]])
    return Entry("type", plain["alias"] or plain["tag"], flat, doc, (), members)


def header_of(path, text, off):
    """Read the text of a header. `off`: the macros that are 0."""
    for unread in ["#ifdef __cplusplus\n(?s:.*?)^#endif", *(rf"#if {macro}\n(?s:.*?)^#endif" for macro in off),
                   " *__attribute__.*", "#(?!define).*"]:
        text = re.sub(f"^(?:{unread})", lambda found: re.sub(".", "", found[0]), text, flags=re.M)
    name = os.path.splitext(os.path.basename(path))[0]
    header = Header(name, "liblocker" if name == "locker" else f"liblocker-{name}", [], [["INTERFACE", [], []]])
    doc, at, text = None, 0, text.translate(BOXES).rstrip()
    while at < len(text):
        at = re.compile(r"\s*").match(text, at).end()
        line, token = text.count("\n", 0, at) + 1, TOKEN.match(text, at)
        if not token or doc and token["comment"]:
            raise Unclear(line, UNKNOWN)
        at, code, entries = token.end(), token[token.lastgroup], header.sections[-1][2]
        title, forward = re.match(r"/\* (-+ (.*?) -+)\s", code), re.match(r"(?:typedef )?struct (\w+)(?: \1)?;", code)
        if title:
            header.sections.append([title[2].upper(), blocks_of(code.replace(title[1], "", 1), line), []])
        elif code.startswith("/**"):
            doc = blocks_of(code, line)
            continue
        elif token["comment"]:
            (header.sections[-1][1] if header.doc else header.doc).extend(blocks_of(code, line))
        elif token["define"] and doc:
            entries.append(Entry("constant", code.split()[1], squeezed(code), doc))
        elif token["define"]:
            if entries and code.split()[1] == entries[-1].name.upper() + "_INIT":
                entries[-1] = entries[-1]._replace(code=f"{entries[-1].code}\n\n#define {code.split()[1]} {{ ... }}")
        elif doc or not forward or code.startswith("typedef") and f"struct {forward[1]} {{" not in text:
            entries.append(entry_of(code, doc, line))
            typedef = "typedef struct {0} {0};".format(entries[-1].name)
            if entries[-1].code.startswith("struct") and typedef in text:
                entries[-1] = entries[-1]._replace(code=f"{typedef}\n\n{entries[-1].code}")
        doc = None
    if doc:
        raise Unclear(line, UNKNOWN)
    if not header.doc or not header.doc[0][1].startswith(f"{name}.h: "):
        raise Unclear(1, f"begin the header with a comment: '/* {name}.h: ' and its purpose")
    return header


# ------------------------------------------------------------------ pages
def prose(text):
    """Return a paragraph with code in bold. A hyphen in a word and an apostrophe are no code."""
    parts = [part.translate(SPECIAL) for part in text.split("`")]
    for at in range(0, len(parts), 2):
        part = re.sub(r"(?<=[A-Za-z])\\-(?=[A-Za-z])", "-", parts[at]).replace(r"\(aq", "'")
        parts[at] = re.sub(r"\b((?:locker|LOCKER)_\w+)", r"\\fB\1\\fR", part)
    parts[1::2] = [rf"\fB{part}\fR" for part in parts[1::2]]
    return "".join(parts)


def formatted(blocks):
    """Return blocks as lines of roff."""
    lines = []
    for kind, content in blocks:
        if kind == "text":
            lines += [".PP"] + [r"\&" + line if line[0] in ".'" else line for line in sentences(prose(content))]
        elif kind == "heading":
            lines.append(".SS " + prose(content))
        elif kind == "example":
            lines += [".PP", ".RS 4", ".EX", *(r"\&" + line for line in content.translate(SPECIAL).split("\n")),
                      ".EE", ".nh", ".RE"]
        else:
            lines += labelled(r".IP \(bu 3" if kind == "-" else f".IP {kind} 3", content, ".RS 3")
    return lines


def labelled(label, blocks, inset=".RS"):
    more = formatted(blocks[1:])
    return [label] + formatted(blocks[:1])[1:] + ([inset, *more, ".RE"] if more else [])


def described(members):
    return [line for member in members if member.doc for line in
            (labelled(f".TP\n\\fB{', '.join(member.names)}\\fR", member.doc) if member.names else formatted(member.doc))]


def page(name, header, version, what, code, sections, related):
    """Return the text of a page. `sections`: each (title, lines)."""
    what = re.sub(r"\\f.", "", prose(what.replace("`", "").rstrip(".:")))
    what = what if what[1:2].isupper() else what[0].lower() + what[1:]
    lines = [rf'.\" Written by cmake/reference.py from {header.name}.h: change the comments there.',
             f'.TH {name} 3 "" "liblocker {version}" liblocker', ".nh", ".ad l", ".SH NAME", rf"{name} \- {what}",
             ".SH SYNOPSIS", ".nf", ".ft B", f"#include <locker/{header.name}.h>", "", code.translate(SPECIAL), ".ft", ".fi"]
    for title, text in sections:
        lines += [".SH " + title, *text] if text else []
    related = sorted(related - {name}, key=lambda other: (other.startswith("liblocker"), other))
    related = [rf"\fB{other.translate(SPECIAL)}\fR(3)," for other in related]
    return "\n".join([*lines, ".SH SEE ALSO", *related, r"\fBlocker\-uri\fR(7)", ""])


def pages_of(headers, version):
    """Return {name: text}."""
    home, users, pages = {}, collections.defaultdict(set), {}  # home: {name: the page that describes it}
    for header, entry in ((header, entry) for header in headers for _, _, entries in header.sections for entry in entries):
        place = header.page if entry.kind == "constant" else entry.name
        home.update(dict.fromkeys([entry.name] + re.findall(r"\bLOCKER_\w+(?= [={]|,|$)", entry.code, re.M), place))
        for word in re.findall(r"\w+", entry.code):
            users[word].add(place)
    for header in headers:
        sections = [("DESCRIPTION", formatted(header.doc))]
        for title, doc, entries in header.sections:
            sections.append((title, formatted(doc)))
            for entry in entries:
                if entry.kind == "constant":
                    sections[-1][1].extend(labelled(f".TP\n\\fB{entry.code.translate(SPECIAL)}\\fR", entry.doc))
                    sections[-1][1].extend(described(entry.members))
                    continue
                sections[-1][1].extend(labelled(f".TP\n\\fB{entry.name}\\fR(3)", [("text", purpose(entry.doc))]))
                text = repr(entry).replace("\\n", " ")
                related = {home[word] for word in re.findall(r"\w+", text) if word in home} | {header.page}
                related |= {other.page for other in headers if re.search(rf"\b{other.name}\.h\b", text)}
                related |= users[entry.name] if len(users[entry.name]) <= FEW else set()
                pages[entry.name] = page(entry.name, header, version, purpose(entry.doc), entry.code, [
                    ("DESCRIPTION", formatted(entry.doc)), ("RETURN VALUE", formatted(entry.returns)),
                    ("MEMBERS" if "struct" in entry.code else "CONSTANTS", described(entry.members))], related)
        what = purpose(header.doc).split(": ", 1)[1]
        pages[header.page] = page(header.page, header, version, what, "", sections, {other.page for other in headers})
    return pages


def main(folder, version, *paths):
    texts = [(path, open(path, encoding="utf-8").read()) for path in paths]
    off = [macro for _, text in texts for macro in re.findall(r"^#define (\w+) 0$", text, re.M)]
    headers = []
    for path, text in texts:
        try:
            headers.append(header_of(path, text, off))
        except Unclear as unclear:
            sys.exit("reference.py: %s:%d: %s" % (path, *unclear.args))
    pages = pages_of(headers, version)
    os.makedirs(folder, exist_ok=True)
    for path in glob.glob(f"{folder}/*.3"):
        os.remove(path)
    for name, text in pages.items():
        with open(f"{folder}/{name}.3", "w", encoding="ascii") as file:
            file.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
