# SPDX-License-Identifier: Apache-2.0
"""Where each function of a C or C++ file begins and ends, found from their braces alone.

Comments, literals and preprocessor lines are blanked out first, line breaks kept; of an #if with several branches the
first one stands for all, so that braces stay balanced. Then each `{` is judged by the text before it, back to the
last `;`, `{` or `}`: a namespace or a type is looked into, a function is measured, anything else is passed over. A
lambda or a local class is part of the function around it.
"""

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      //(?:\\\n|[^\n])*                                 # comment to the end of the line
    | /\*.*?\*/                                         # comment
    | R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)"    # raw string
    | "(?:\\.|[^"\\\n])*"                               # string
    | (?<![0-9a-zA-Z_])(?:u8|[uUL])?'(?:\\.|[^'\\\n])+'  # character, not the ' between digits
    | ^[ \t]*\#(?:\\\n|/\*.*?\*/|[^\n])*                # preprocessor line
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Function:
    name: str
    first: int  # the line where its signature begins
    last: int  # the line of its closing brace

    @property
    def lines(self):
        return self.last - self.first + 1


def _blank(text):
    """The same text without comments, literals, and directives other than conditionals."""

    def replacement(match):
        token = match.group(0)
        newlines = "\n" * token.count("\n")
        if token.lstrip().startswith("#"):
            conditional = re.match(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b", token)
            return (f"#{conditional.group(1)}" if conditional else "") + newlines
        return ('""' if token[0] != "/" else " ") + newlines

    return _TOKEN.sub(replacement, text)


def _first_branches(text):
    """Drops the #elif and #else branches, and the conditionals themselves."""
    out, dropping = [], []
    for line in text.split("\n"):
        directive = line[1:] if line.startswith("#") else None
        if directive in ("if", "ifdef", "ifndef"):
            dropping.append(False)
        elif directive in ("elif", "else") and dropping:
            dropping[-1] = True
        elif directive == "endif" and dropping:
            dropping.pop()
        out.append("" if directive is not None or any(dropping) else line)
    return "\n".join(out)


def _without(text, opening, closing):
    """The text outside of all pairs of these brackets."""
    out, depth = [], 0
    for char in text:
        depth += char == opening
        if depth == 0:
            out.append(char)
        depth -= char == closing and depth > 0
    return "".join(out)


_LAMBDA = re.compile(r"\]\s*(\([^{}]*\))?\s*(mutable\s*)?(noexcept\s*)?(->[^{}]*)?$")


def _classify(head):
    """What the brace after this text opens: scope, function, member (of an initialiser list) or other."""
    head = head.strip()
    if re.search(r'\bnamespace\b|\bextern\s*""$', head):
        return "scope"
    if _LAMBDA.search(head):
        return "function"
    if head.count("(") > head.count(")"):
        return "other"
    plain = _without(re.sub(r"\[\[.*?\]\]|\balignas\s*\([^)]*\)|__attribute__\s*\(\(.*?\)\)", " ", head), "(", ")")
    if re.search(r"\b(class|struct|union|enum)\b", re.sub(r"<[^<>]*>", "", plain)) and "(" not in _signature(head):
        return "scope"
    if head.endswith(("=", ",", "return")) or "(" not in head:
        return "other"
    after = head[head.index(")") + 1 :]
    if re.search(r"(?<!:):(?!:)", _without(after, "(", ")")) and re.search(r"[\w>]$", head):
        return "member"
    return "function"


def _signature(head):
    return re.sub(r"\[\[.*?\]\]|\balignas\s*\([^)]*\)|__attribute__\s*\(\(.*?\)\)", " ", head)


def _name(head):
    before = head[: head.index("(")] if "(" in head else head
    if re.search(r"\boperator\s*$", before):
        return "operator()"
    match = re.search(r"(operator\s*\S+|[~\w:]+)\s*$", before)
    return match.group(1) if match else "lambda"


class _Scanner:
    def __init__(self, text):
        self.text = _first_branches(_blank(text))
        self.found = []
        self.head_start = 0  # offset of the text that the next brace is judged by

    def line(self, offset):
        return self.text.count("\n", 0, offset) + 1

    def head(self, end):
        """(text, offset) before `end`, without access specifiers and blank space."""
        text = self.text[self.head_start : end]
        skipped = re.match(r"(\s|\b(public|private|protected)\s*:(?!:))*", text).end()
        return text[skipped:], self.head_start + skipped

    def scan(self):
        stack = []  # (kind, name, offset of the head)
        inside = 0  # how many of them are not scopes
        for match in re.finditer(r"[{};]", self.text):
            char, at = match.group(0), match.start()
            if char == "{":
                text, start = self.head(at)
                kind = "other" if inside else _classify(text)
                stack.append((kind, text, start))
                inside += kind != "scope"
            elif char == "}" and stack:
                kind, text, start = stack.pop()
                inside -= kind != "scope"
                if kind == "function" and not inside:
                    self.found.append(Function(_name(text), self.line(start), self.line(at)))
                if kind in ("member", "other"):
                    continue  # `x_{1}` or `T a = {}`: the text around it goes on
            if not inside and (char != "{" or stack[-1][0] == "scope"):
                self.head_start = match.end()
        return self.found


def scan(text):
    """The functions of a file, in order of their ends."""
    return _Scanner(text).scan()


_TYPE_HEAD = re.compile(r"(?:template ?<.*?> ?)?(?:struct|class|enum(?: class)?|union) (\w+)(?: final)?(?: ?: ?[^:].*)?$")
_OBJECT_HEAD = re.compile(r"([A-Za-z_]\w*) ?(?:\[[^\]]*\] ?)*(?:=.*)?$")


def _declared(head):
    """What a declaration makes: a type or an object by its name, a function by its name and the types it takes; None: nothing, or another name."""
    head = re.sub(r"\s+", " ", re.sub(r"\[\[.*?\]\]", "", head)).strip()
    if re.match(r"(using|typedef|namespace|static_assert|extern)\b", head):
        return None
    made = _TYPE_HEAD.match(head)
    if made:
        return made.group(1)
    while (without := re.sub(r"<[^<>]*>", "", head)) != head:
        head = without
    made = re.match(r"[^(=]*?(\w+) ?\((.*)\)", head)
    if made and re.search(r"\w::~?$", head[:made.start(1)]):  # of a class, which has that name
        return None
    if made:
        types = [re.sub(r"(?<=[ &*>])[a-z]\w*$", "", re.sub(r" ?=.*", "", each).strip()) for each in made.group(2).split(",")]
        return f"{made.group(1)}({', '.join(each.strip() for each in types)})"
    made = _OBJECT_HEAD.search(head)
    return made.group(1) if made else None


def kept(text):
    """(namespace, name, line) of what the anonymous namespaces of a source have, without names that stand for others."""
    text = _first_branches(_blank(text))
    stack, start, found = [], 0, []

    def outside():
        return all(each is not None for each in stack)

    for match in re.finditer(r"[{};]", text):
        char, at = match.group(0), match.start()
        head = text[start:at].strip()
        begun = re.search(r"\bnamespace\b ?([\w:]*)$", head) if char == "{" else None
        if begun:
            stack.append(begun.group(1))
        elif char != "}" and outside() and "" in stack and (name := _declared(head)):
            found.append(("::".join(filter(None, stack)), name, text.count("\n", 0, at) + 1))
        if char == "{" and not begun:
            stack.append(None)
        elif char == "}" and stack:
            stack.pop()
        if outside():
            start = match.end()
    return found
