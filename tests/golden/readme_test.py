#!/usr/bin/env python3
"""README and guide show what the commands do.

A fenced block below `<!-- output of: shardsim ARGS -->` must be that command's output, byte by byte. `(exit N)`
behind ARGS: it ends with that code. `| FILTER` behind them: the lines that this command of the shell leaves.
Every `./dev run ARGS` shown must end well, and so must the examples of `shardsim --help`.

usage: readme_test.py SHARDSIM [--update]     (--update rewrites the blocks)
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs/guide").glob("*.md")), ROOT / "docs/what-users-met.md")
SHOWN = re.compile(r"<!-- output of: shardsim (.+?)( \(exit \d+\))? -->\n```\n(.*?)```\n", re.DOTALL)
COMMAND = re.compile(r"^\./dev run ([^#\n]+)", re.MULTILINE)
BAD_USAGE = 2  # The exit code where an error is shown.
# A row of a table: what a comparison with these flags comes to, which is the last line of its output.
COMPARED = re.compile(r"^\| `(--set [^`]+)` \| (.*?) ?\|$", re.MULTILINE)
HELP_EXAMPLE = re.compile(r"^  shardsim (.+?)(?:  .*)?$", re.MULTILINE)


def run(shardsim, arguments, folder=None):
    """(exit code, stdout) at the root, where readers of the README are. Files go to the folder,
    where later commands find their input, or to a temporary one."""
    if folder is None:
        with tempfile.TemporaryDirectory() as own:
            return run(shardsim, arguments, own)
    arguments, _, lines = arguments.partition(" | ")
    words = shlex.split(arguments)
    shows_all = words[-1] == "2>&1"  # Notes and errors, too.
    if shows_all:
        words.pop()
    for option in ("--record-decisions", "--replay-decisions", "--dump-state", "-o"):
        if option in words:
            place = words.index(option) + 1
            words[place] = os.path.join(folder, words[place])
    writes_here = words[0] in ("demo", "init")  # It needs no file from here.
    if "--set" in words and not writes_here and words[0] not in ("check", "collective", "diff", "plan"):  # These have no --out.
        words += ["--out", folder]
    done = subprocess.run([os.path.abspath(shardsim), *words], cwd=folder if writes_here else ROOT, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, check=False, text=True, encoding="utf-8",
                          stderr=subprocess.STDOUT if shows_all else None, env={"PATH": os.environ["PATH"], "SOURCE_DATE_EPOCH": "0"})
    shown = done.stdout.replace(folder + "/", "")
    if lines:
        shown = subprocess.run(["sh", "-c", lines], input=shown, stdout=subprocess.PIPE, check=True, text=True,
                               encoding="utf-8").stdout
    return done.returncode, shown


def sentence_of(shardsim, flags):
    return run(shardsim, "diff scenarios/quickstart.json " + flags)[1].splitlines()[-1]


def text_of_pages():
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


class ReadmeTest(unittest.TestCase):
    shardsim = ""

    def test_the_output_shown_is_the_output_printed(self):
        shown = SHOWN.findall(text_of_pages())
        self.assertTrue(shown)
        for arguments, told, text in shown:
            code = int(re.sub(r"\D", "", told)) if told else BAD_USAGE if text.startswith("error[") else 0
            self.assertEqual(run(self.shardsim, arguments), (code, text),
                             "to accept it: python3 tests/golden/readme_test.py SHARDSIM --update")

    def test_a_table_of_sentences_has_those_that_are_printed(self):
        shown = COMPARED.findall((ROOT / "docs/guide/compare-reference.md").read_text(encoding="utf-8"))
        self.assertEqual(len(shown), 4)
        for flags, sentence in shown:
            self.assertEqual(sentence_of(self.shardsim, flags), sentence)

    def test_every_command_shown_ends_well(self):
        commands = [command.strip()
                    for command in COMMAND.findall(text_of_pages())]
        self.assertIn("scenarios/quickstart.json", commands)
        self.check_commands(commands)

    def test_every_example_of_the_help_ends_well(self):
        commands = HELP_EXAMPLE.findall(run(self.shardsim, "--help")[1])
        self.assertIn("scenarios/quickstart.json", commands)
        self.check_commands(commands)

    def check_commands(self, commands):
        # A search of a minute and a half is cut to some layouts; it is the same command.
        commands = [f"{command} --fix tp=8 --fix pp=4 --fix cp=1" if command.startswith("plan llama3-70b") else command
                    for command in commands]
        with tempfile.TemporaryDirectory() as folder:
            for command in commands:
                with self.subTest(command=command):
                    code, text = run(self.shardsim, command, folder)
                    self.assertEqual(code, 0)
                    self.assertTrue(text or " -o " in command)


def update(shardsim):
    def with_output(match):
        arguments, told = match.group(1), match.group(2) or ""
        return (f"<!-- output of: shardsim {arguments}{told} -->\n```\n"
                f"{run(shardsim, arguments)[1]}```\n")
    for page in PAGES:
        text = SHOWN.sub(with_output, page.read_text(encoding="utf-8"))
        if page.name == "compare-reference.md":
            text = COMPARED.sub(lambda row: f"| `{row[1]}` | {sentence_of(shardsim, row[1])} |", text)
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if "--update" in sys.argv:
        update(sys.argv[1])
    else:
        ReadmeTest.shardsim = sys.argv.pop(1)
        unittest.main()
