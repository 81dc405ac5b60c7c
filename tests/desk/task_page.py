"""A task page of the guide as steps: what a reader types, and what is printed.

A block ```sh is typed in the folder in which the page began, and the block ```text behind it is all that the
terminal shows, of standard output and of standard error. A line `...` in it stands for one line or more that the page
leaves out. A script without such a block prints nothing. Comments ahead of a script say what cannot be seen:

    <!-- exit 3 -->             it ends with this code, and not with 0
    <!-- not run: REASON -->    no test can run it
"""

import difflib
import os
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs/guide"
NAMES = ("plan", "verify", "compare", "calibrate", "ci")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- (?:exit (?P<code>\d+)|not run: (?P<reason>[^>]+)) -->\n\Z")
CUT = "..."
# Progress depends on time. A terminal wipes it out.
PROGRESS = re.compile(r"(simulating|\d+ of \d+), \d+ (s|min|h)\b.*")
PATIENCE_S = 600


class PageError(Exception):
    """A page that cannot be followed as it is written."""


class Step:
    """A script of a page. `shown`: the lines of the block behind it; `place`: where these are in the page's text."""

    def __init__(self, script, line, code, reason):
        self.script, self.line, self.code, self.reason = script, line, code, reason
        self.shown, self.place = [], None


def steps_of(text):
    """The steps of a page, in its order."""
    steps, end = [], 0
    for block in BLOCK.finditer(text):
        language, body = block.groups()
        line = text.count("\n", 0, block.start()) + 1
        between = text[end:block.start()]
        end = block.end()
        if language == "sh":
            mark = MARK.search(between)
            code, reason = (mark["code"], mark["reason"]) if mark else (None, None)
            steps.append(Step(body, line, int(code or 0), reason))
        elif language == "text" and steps and steps[-1].place is None and not between.strip():
            steps[-1].shown, steps[-1].place = body.splitlines(), block.span(2)
        else:
            raise PageError(f"line {line}: a block of {language or 'no language'}, which follows no script")
    return steps


def pieces_of(shown):
    """The runs of lines between cuts; the first and the last may be empty."""
    pieces = [[]]
    for line in shown:
        if line.strip() == CUT:
            pieces.append([])
        else:
            pieces[-1].append(line)
    return pieces


def place_of(piece, printed, begin, end):
    """Where a run of lines stands, from `begin` to `end`, or None."""
    return next((at for at in range(begin, end - len(piece) + 1) if printed[at:at + len(piece)] == piece), None)


def difference(shown, printed):
    """What a block shows that is not printed in its place, in words; empty if all is."""
    pieces, at = pieces_of(shown), 0
    for number, piece in enumerate(pieces):
        first, last = number == 0, number == len(pieces) - 1
        begin = at if first else at + 1  # A cut stands for one line at least.
        if last and not first:
            begin = max(begin, len(printed) - len(piece))
        found = place_of(piece, printed, begin, begin + len(piece) if first else len(printed))
        if found is None or (last and found + len(piece) != len(printed)):
            told = "\n".join(difflib.unified_diff(shown, printed, "page", "printed", lineterm="", n=1))
            return f"not printed{'' if first else ' behind what is cut'}:\n" + "\n".join(piece) + f"\n{told}"
        at = found + len(piece)
    return ""


def refilled(shown, printed):
    """The block for what is printed now, cut where it is cut; the runs of lines that are most like its own."""
    if not difference(shown, printed):
        return shown
    pieces, at, block = pieces_of(shown), 0, []
    if len(pieces) == 1:
        return printed
    for number, piece in enumerate(pieces):
        if number == 0:
            begin = 0
        elif number == len(pieces) - 1:
            begin = max(at + 1, len(printed) - len(piece))
        else:
            begin = max(range(at + 1, max(at + 2, len(printed) - len(piece) + 1)), key=lambda start: sum(
                difflib.SequenceMatcher(None, *pair).ratio() for pair in zip(piece, printed[start:])))
        block += ([CUT] if number else []) + printed[begin:begin + len(piece)]
        at = begin + len(piece)
    return block


class Reader:
    """An empty folder, and a shell that finds shardsim and nothing of the checkout."""

    def __init__(self, shardsim):
        self.home = tempfile.TemporaryDirectory(prefix="shardsim-reader-")
        home = pathlib.Path(self.home.name)
        self.folder = home / "empty"
        self.folder.mkdir()
        (home / "bin").mkdir()
        os.symlink(os.path.abspath(shardsim), home / "bin/shardsim")
        self.environment = {"PATH": f"{home / 'bin'}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.home.cleanup()

    def type(self, step):
        """(exit code, lines on the terminal) of a step."""
        done = subprocess.run(["bash", "--noprofile", "--norc", "-c", step.script], cwd=self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              text=True, encoding="utf-8", timeout=PATIENCE_S)
        return done.returncode, [line for line in done.stdout.splitlines() if not PROGRESS.fullmatch(line)]


def follow(text, reader):
    """Each step of a page with its exit code and its lines, as a reader meets them; None where it is not run."""
    for step in steps_of(text):
        yield step, None if step.reason else reader.type(step)
