#!/usr/bin/env python3
"""The first example of `shardsim diff` compared a model of two layers with one of three.

usage: first_diff_test.py SHARDSIM
"""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class FirstDiffTest(unittest.TestCase):
    shardsim = ""

    def output(self, words):
        return subprocess.run([self.shardsim, *words], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              check=True, text=True).stdout

    def test_the_first_diff_shown_compares_two_runs_of_the_same_work(self):
        in_readme = re.search(r"^\./dev run (diff [^#\n]+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
        in_help = re.search(r"^Examples:\n  shardsim (diff .+)", self.output(["diff", "--help"]), re.MULTILINE)
        for command in (in_readme, in_help):
            with self.subTest(command=command.group(1)):
                sentence = self.output(command.group(1).split()).splitlines()[-1]
                self.assertRegex(sentence, r"^B is [\d.]+ times (?:slower|faster) \(|^A and B take the same time")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    FirstDiffTest.shardsim = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
