"""A file of C or Lua as tokens, for what changes it: script/mutate and script/simulate --planted."""
import re

TOKEN = re.compile(r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:\\\n|[^\n])*)
                      |(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
                      |(?P<word>[A-Za-z_]\w*)
                      |(?P<number>\d[\w.]*)
                      |(?P<sign><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
                   re.VERBOSE | re.DOTALL | re.MULTILINE)
LUA_TOKEN = re.compile(r"""(?P<skip>\s+|--[^\n]*)
                          |(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
                          |(?P<word>[A-Za-z_]\w*)
                          |(?P<number>\d[\w.]*)
                          |(?P<sign>\.\.\.|\.\.|[<>=~]=|.)""", re.VERBOSE | re.DOTALL)
KEYWORDS = {"if", "while", "for", "switch", "return", "sizeof", "do", "else", "case", "goto", "break", "continue", "default",
            "static", "const", "struct", "enum", "union", "typedef", "extern", "_Static_assert", "_Alignof"}
CLOSES = {"(": ")", "[": "]", "{": "}"}


class Source:
    """The tokens of a file: (kind, text, begin, end), which of them closes which, how deep each is in braces, and the bracket that it
    stands in."""

    def __init__(self, path, text):
        self.path, self.text, self.is_lua = path, text, path.endswith(".lua")
        self.tokens = [(m.lastgroup, m[0], m.start(), m.end())
                       for m in (LUA_TOKEN if self.is_lua else TOKEN).finditer(text) if m.lastgroup != "skip"]
        self.partner, self.opener, self.depth, self.is_void, self.inside = {}, {}, [], {}, []
        stack, depth, void, declared = [], 0, False, 0
        for i, (_, word, _, _) in enumerate(self.tokens):
            self.inside.append(self.word(stack[-1]) if stack else "")
            if word in CLOSES:
                stack.append(i)
            elif word in CLOSES.values() and stack:
                self.opener[i] = stack.pop()
                self.partner[self.opener[i]] = i
            if word == "{":
                if depth == 0:
                    void = self.returns_nothing(declared, i)
                depth += 1
            elif word == "}":
                depth -= 1
            if depth == 0 and word in (";", "}"):
                declared = i + 1
            self.depth.append(depth)
            self.is_void[i] = void

    def returns_nothing(self, begin, end):
        words = [t[1] for t in self.tokens[begin:end] if t[1] not in ("static", "inline", "_Noreturn")]
        return words[:1] == ["void"] and words[1:2] != ["*"]

    def word(self, i):
        return self.tokens[i][1] if 0 <= i < len(self.tokens) else ""

    def kind(self, i):
        return self.tokens[i][0] if 0 <= i < len(self.tokens) else ""

    def begins_statement(self, i):
        return self.inside[i] == "{" and self.word(i - 1) in (";", "{", "}")

    def follows_condition(self, i):
        """Whether it stands behind `else`, or the brackets of an `if`, a loop or a macro, which a cast's are not."""
        opener = self.opener.get(i - 1, 0)
        return self.depth[i] > 0 and (self.word(i - 1) == "else" or (self.word(i - 1) == ")" and self.kind(opener - 1) == "word"))

    def replaced(self, begin, end, new):
        """The file with other text from one token's begin to another one's end."""
        return self.text[:self.tokens[begin][2]] + new + self.text[self.tokens[end][3]:]

    def shown(self, begin, end):
        return self.text[self.tokens[begin][2]:self.tokens[end][3]]

    def callee_end(self, i):
        """Of a call or an assignment that begins there, the last token of a->b.c; -1: it is none."""
        if self.kind(i) != "word" or self.word(i) in KEYWORDS:
            return -1
        while self.word(i + 1) in ("->", ".") and self.kind(i + 2) == "word":
            i += 2
        return i

    def statement_end(self, i):
        """The `;` behind it, outside of all brackets."""
        while i < len(self.tokens) and self.word(i) != ";":
            i = self.partner.get(i, i) + 1
        return i

    def arguments(self, opening):
        """Of a call, the first and the last token of each argument."""
        found, first, i = [], opening + 1, opening + 1
        end = self.partner.get(opening, opening)
        while i < end:
            if self.word(i) == ",":
                found.append((first, i - 1))
                first = i + 1
            i = self.partner.get(i, i) + 1
        return found + [(first, end - 1)] if end > opening + 1 else []

    def body(self, name):
        """The first and the last brace of a function, a table or a struct of that name that the file defines, as tokens; ""
        stands for the whole file; None: the file defines no such name. Of Lua, also a part (embed.cmake)."""
        if name == "":
            return -1, len(self.tokens)
        if self.is_lua:
            return self.lua_body(name)
        named = [i for i in range(len(self.tokens)) if self.word(i) == name and self.depth[i] == 0]
        for i in sorted(named, key=lambda i: self.word(i + 1) != "("):  # a function comes before a struct of the same name
            after = i + 1
            while self.word(after) in ("(", "[", "=") or self.kind(after) == "word":  # parameters, attributes, an array's size
                after = self.partner.get(after, after) + 1
            if self.word(after) == "{":
                return after, self.partner[after]
        return None

    def lua_body(self, name):
        """As body(), of Lua: a part, or from the parameters to the `end` at the beginning of a line."""
        part = re.search(rf"^-- part: {name}\n", self.text, re.M)
        if part:
            following = self.text.find("\n-- part: ", part.end())
            begin, end = part.end(), following if following >= 0 else len(self.text)
            return (sum(t[2] < begin for t in self.tokens) - 1, sum(t[2] < end for t in self.tokens))
        ends = [i for i, t in enumerate(self.tokens) if t[1] == "end" and self.text[t[2] - 1] == "\n"]
        for i in range(2, len(self.tokens)):
            if self.word(i) == name and self.word(i - 1) == "function":
                return i, next(e for e in ends if e > i)
        return None

    def match(self, i, end, pattern):
        """Where the pattern's tokens end, if they stand there, and what each `$` stands for: a token, or brackets and all in them."""
        found = []
        for want in pattern:
            if i >= end or (want != "$" and self.word(i) != want):
                return None
            last = self.partner.get(i, i) if want == "$" else i
            found += [self.shown(i, last)] if want == "$" else []
            i = last + 1
        return i - 1, found

    def find(self, name, pattern):
        """(first token, last, what each `$` stands for) of each place in the body of that name where the pattern's tokens stand,
        however they are laid out."""
        words = [t[1] for t in Source(self.path, pattern).tokens]
        begin, end = self.body(name) or (0, 0)
        matches = ((i, self.match(i, end, words)) for i in range(begin + 1, end)) if words else ()
        return [(i, found[0], found[1]) for i, found in matches if found]

    def definition(self, name):
        """Where the definition of that name begins in the text; None: the file does not define the name."""
        body = self.body(name)
        if body is None:
            return None
        if self.is_lua:
            return self.text.rindex("local function", 0, self.tokens[body[0]][2])
        first = next((i + 1 for i in range(body[0] - 1, -1, -1) if self.depth[i] == 0 and self.word(i) in (";", "}")), 0)
        return self.tokens[first][2]
