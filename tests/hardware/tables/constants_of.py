"""Finds the constants of a C++ source in its text, so that nobody keeps a list of tables by hand."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tidy"))

import source  # pylint: disable=wrong-import-position

NAMESPACE = re.compile(r"\b(?:inline\s+)?namespace\b[\w:\s]*$")
CONSTANT = re.compile(r"\b(?:constexpr|const|constinit)\b")
# The last word before the value, or before the bounds of an array.
NAME = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$")
# These types have no defaults that a compiler could lose.
PLAIN = re.compile(r"(?:std::)?(?:u?int\d*(?:_t)?|size_t|double|float|bool|char|string_view)\s*\**")


class Scope:
    """Tracks whether only namespaces enclose a place in the code."""

    def __init__(self):
        self.open = []

    def enter(self, before):
        self.open.append(bool(NAMESPACE.search(before)))

    def leave(self):
        if self.open:
            self.open.pop()

    @property
    def is_namespace(self):
        return all(self.open)


def declarations(code):
    """Yields each piece of code that begins after one of { } ; and ends at one of = ( { } ; as
    (position, text up to its value, the sign that ends it, whether only namespaces enclose it)."""
    scope = Scope()
    start = 0
    ended = False  # Whether the declaration's first sign is past, so that the rest is its value.
    for match in re.finditer(r"[{};=(]", code):
        sign, place = match.group(), match.start()
        if not ended:
            yield start, code[start:place], sign, scope.is_namespace
        if sign in "=(":
            ended = True
            continue
        if sign == "{":
            scope.enter(code[start:place])
        elif sign == "}":
            scope.leave()
        start, ended = match.end(), False


def hides_a_table(declared):
    """Whether a declaration in a function or class is a constant whose type could lose a default."""
    if not re.search(r"\bconstexpr\b|\bconstinit\b|\bstatic\s+const\b", declared):
        return False
    words = re.sub(r"\b(?:static|inline|constexpr|constinit|const)\b", "", NAME.sub("", declared))
    return not PLAIN.fullmatch(words.strip())


def constants_of(text):
    """([name], [problem]) of a source: its constants at namespace scope, and constants that a function or
    class hides, so that a program cannot print them. Plain numbers and texts may be hidden."""
    code = source.code_only(text)
    code = re.sub(r"(?m)^[ \t]*#.*$", lambda match: source.blank(match.group()), code)
    names, problems = [], []
    for start, declared, sign, at_namespace in declarations(code):
        if not CONSTANT.search(declared) or sign in ";}" or re.search(r"\bextern\b|\busing\b", declared):
            continue
        if re.search(r"&\s*\w+\s*$", declared):
            continue  # Another name of a constant that is printed where it stands.
        name = NAME.search(declared)
        is_constant = name and re.fullmatch(r"k[A-Z]\w*", name.group(1))
        if sign == "(" and not is_constant:
            continue  # A function.
        line = source.line_of(code, start + len(declared) - len(declared.lstrip()))
        if at_namespace and is_constant:
            names.append(name.group(1))
        elif at_namespace:
            problems.append(f"line {line}: a constant is named kName, or no program finds it")
        elif hides_a_table(declared):
            problems.append(f"line {line}: a table that a function or class hides cannot be printed; "
                            "move it to the namespace around")
    return names, problems
