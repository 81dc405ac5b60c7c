"""Reading C++ and meson.build well enough for rules about text: code without comments and strings,
includes with their line, and the sources that a build file names."""

import pathlib
import posixpath
import re

# In the order in which they can start: a digit separator is not a quote, a quote inside a comment
# is not a string.
TOKEN = re.compile(
    r"""(?P<number>\b\d(?:'?[\w.])*)"""
    r"""|(?P<raw>\bu?8?[LU]?R"(?P<fence>[^()\s\\]{0,16})\(.*?\)(?P=fence)")"""
    r"""|(?P<comment>//[^\n]*|/\*.*?\*/)"""
    r"""|(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""",
    re.DOTALL | re.VERBOSE)
ERROR_CODE = re.compile(r'"(E\d{4})"')
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
MESON_COMMENT = re.compile(r"(?m)#.*$")
MESON_SOURCE = re.compile(r"'([^'\n]+\.cpp)'")


def blank(text):
    """The same number of lines and columns, with nothing on them."""
    return re.sub(r"[^\n]", " ", text)


def code_only(text):
    """The text with comments and the insides of strings blanked, so that positions stay true."""
    def keep_or_blank(match):
        if match.group("number"):
            return match.group()
        return blank(match.group())
    return TOKEN.sub(keep_or_blank, text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


class Source:
    """One .hpp or .cpp file; `path` is relative to the root, with forward slashes."""

    def __init__(self, root, path):
        self.path = path
        self.text = (pathlib.Path(root) / path).read_text(encoding="utf-8")
        self.code = code_only(self.text)
        self.lines = self.text.count("\n") + (not self.text.endswith("\n") and self.text != "")
        # An include's name looks like a string, so includes are taken from the whole text and
        # believed where the code keeps the word.
        self.includes = [
            (line_of(self.text, match.start()), match.group(1), match.group(2))
            for match in INCLUDE.finditer(self.text)
            if "include" in self.code[match.start():match.end()]]

    @property
    def is_header(self):
        return self.path.endswith(".hpp")

    def find(self, pattern, *, in_comments=False):
        """(line, matched text) of each place where the pattern stands in the code."""
        text = self.text if in_comments else self.code
        for match in pattern.finditer(text):
            yield line_of(text, match.start()), match.group().strip()


def strings(file):
    """(position, text) of each string in the code, quotes included."""
    for match in TOKEN.finditer(file.text):
        text = match.group("string") or match.group("raw")
        if text:
            yield match.start(), text


def comments(file):
    """(line, text) of each comment; a run of // lines is one for each line."""
    for match in TOKEN.finditer(file.text):
        if match.group("comment"):
            yield line_of(file.text, match.start()), match.group()


def error_codes(file):
    """(line, code) of each string that is an error code; comments may quote what they like."""
    for match in TOKEN.finditer(file.text):
        code = ERROR_CODE.fullmatch(match.group("string") or "")
        if code:
            yield line_of(file.text, match.start()), code.group(1)


# A name, or the end of a lambda's captures, and what stands in the parentheses behind it.
PARAMETERS = re.compile(r"(?:([\w~]+)\s*|\])\((?=((?:[^()]|\([^()]*\))*)\))")


def takers_of(file, type_name):
    """(line, function) of all that declare a parameter of the type; it may be part of another type."""
    parameter = re.compile(rf"\b{type_name}\b(?!\s*[({{:])")
    for match in PARAMETERS.finditer(file.code):
        if parameter.search(match.group(2)):
            yield line_of(file.code, match.start()), match.group(1) or "a lambda"


def read_tree(root, folders):
    """All sources below the folders, by path, in a fixed order."""
    root = pathlib.Path(root)
    paths = sorted(path.relative_to(root).as_posix() for folder in folders
                   for suffix in ("*.hpp", "*.cpp") for path in (root / folder).rglob(suffix))
    return {path: Source(root, path) for path in paths}


def built_sources(root, folders):
    """Paths of all .cpp files that some meson.build names, relative to the root."""
    root = pathlib.Path(root)
    named = set()
    for folder in folders:
        for build_file in (root / folder).rglob("meson.build"):
            text = MESON_COMMENT.sub("", build_file.read_text(encoding="utf-8"))
            for name in MESON_SOURCE.findall(text):
                path = posixpath.normpath((build_file.parent / name).relative_to(root).as_posix())
                named.add(path)
    return named
