#!/usr/bin/env python3
"""Completion scripts in their shells, the manual through its linters, a diff through
patch, and a scenario from standard input. Tests of missing programs are skipped, and counted so.

usage: shells_test.py SHARDSIM
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Bash's work on the tab key: the words of the line, cut at '=' too, and the one being completed.
PRESS_TAB = r"""
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMP_LINE="$*"
COMP_POINT=${#COMP_LINE}
_shardsim
((${#COMPREPLY[@]})) && printf '%s\n' "${COMPREPLY[@]}"
exit 0
"""


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"{program} is not installed")


class ShellsTest(unittest.TestCase):
    shardsim = ""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.script = {}
        for shell in ("bash", "zsh", "fish"):
            path = pathlib.Path(cls.folder.name) / shell
            path.write_text(cls.printed("completion", shell), encoding="utf-8")
            cls.script[shell] = str(path)
        # The scripts ask the command for the names of presets.
        os.symlink(os.path.realpath(cls.shardsim), os.path.join(cls.folder.name, "shardsim"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def printed(cls, *arguments, **options):
        return subprocess.run([cls.shardsim, *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE,
                              text=True, encoding="utf-8", timeout=60, **options).stdout

    def completed(self, *words):
        done = subprocess.run(["bash", "-c", PRESS_TAB, "bash", self.script["bash"], *words], cwd=ROOT,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                              env={**os.environ, "PATH": self.folder.name + ":" + os.environ["PATH"]})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash_completes_verbs_and_files_first(self):
        self.assertEqual(self.completed("shardsim", "dem"), ["demo"])
        self.assertIn("scenarios", self.completed("shardsim", "sc"))
        self.assertIn("schema", self.completed("shardsim", "sc"))
        self.assertEqual(self.completed("shardsim", "scenarios/quick"), ["scenarios/quickstart.json"])

    def test_bash_completes_options_of_the_verb(self):
        self.assertEqual(self.completed("shardsim", "fix", "--dr"), ["--dry-run"])
        # A file is run.
        self.assertEqual(self.completed("shardsim", "scenarios/quickstart.json", "--assum"),
                         ["--assumptions"])
        self.assertEqual(self.completed("shardsim", "check", "--assum"), [])

    def test_bash_completes_values(self):
        self.assertEqual(self.completed("shardsim", "completion", ""), ["bash", "zsh", "fish"])
        self.assertEqual(self.completed("shardsim", "check", "--output-format", ""),
                         ["text", "json", "github", "junit"])
        self.assertEqual(self.completed("shardsim", "x.json", "--backend", "=", "m"), ["mpi"])
        self.assertEqual(self.completed("shardsim", "x.json", "--backend", "="),
                         ["fiber", "mpi", "nccl"])
        self.assertEqual(self.completed("shardsim", "x.json", "--set", "parallelism.zero"),
                         ["parallelism.zero_stage="])

    def test_bash_asks_for_presets(self):
        self.assertEqual(self.completed("shardsim", "presets", "llama3-7"), ["llama3-70b"])
        self.assertEqual(self.completed("shardsim", "init", "--model", "llama3-7"), ["llama3-70b"])
        self.assertEqual(self.completed("shardsim", "init", "--model", "dgx"), [])
        self.assertIn("dgx-h100", self.completed("shardsim", "init", "--gpu", "dgx"))

    def test_bash_leaves_files_to_bash(self):
        self.assertEqual(self.completed("shardsim", "check", "scenarios/quick"), [])
        self.assertIn("complete -o default", pathlib.Path(self.script["bash"]).read_text())

    @needs("zsh")
    def test_zsh_reads_its_script(self):
        subprocess.run(["zsh", "-f", "-n", self.script["zsh"]], check=True, timeout=60)

    @needs("fish")
    def test_fish_completes(self):
        subprocess.run(["fish", "--no-config", "--no-execute", self.script["fish"]], check=True, timeout=60)

        def completed(line):
            done = subprocess.run(["fish", "--no-config", "-c",
                                   f"source {self.script['fish']}; complete -C '{line}'"],
                                  cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=60,
                                  env={**os.environ, "HOME": self.folder.name,
                                       "PATH": self.folder.name + ":" + os.environ["PATH"]})
            return [row.split("\t")[0] for row in done.stdout.splitlines()]

        self.assertIn("demo", completed("shardsim de"))
        self.assertEqual(completed("shardsim fix --dr"), ["--dry-run"])
        self.assertEqual(completed("shardsim init --model llama3-7"), ["llama3-70b"])
        self.assertEqual(completed("shardsim run x --set parallelism.zero"), ["parallelism.zero_stage="])
        self.assertEqual(completed("shardsim completion z"), ["zsh"])

    @needs("mandoc")
    def test_the_manual_passes_mandoc(self):
        done = subprocess.run(["mandoc", "-Tlint", "-W", "warning"], input=self.printed("man"), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        # Without a date equal builds give equal pages.
        self.assertEqual([line for line in done.stdout.splitlines() if "missing date" not in line], [])

    @needs("groff")
    def test_the_manual_passes_groff(self):
        done = subprocess.run(["groff", "-man", "-ww", "-Tascii", "-P-cbou"], input=self.printed("man"), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, timeout=60)
        self.assertEqual(done.stderr, "")
        for words in ("shardsim demo", "--dry-run", "EXIT STATUS", "llama3-70b"):
            self.assertIn(words, done.stdout)

    @needs("patch")
    def test_the_diff_of_fix_is_one_that_patch_takes(self):
        scenario = (ROOT / "scenarios/quickstart.json").read_text(encoding="utf-8")
        lines = scenario.replace('"seq_len"', '"seq_length"').replace('  "schema_version": 1,\n', "")
        wrong = lines.replace('"precision": "bf16"', '"precision": "bfloat16"')
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "mine.json"
            path.write_text(wrong, encoding="utf-8")
            diff = subprocess.run([self.shardsim, "fix", "-q", "--dry-run", "mine.json"], cwd=folder,
                                  check=True, stdout=subprocess.PIPE, text=True, encoding="utf-8").stdout
            self.assertEqual(path.read_text(encoding="utf-8"), wrong)
            subprocess.run(["patch", "-p1", "-s"], cwd=folder, input=diff, text=True, encoding="utf-8",
                           check=True)
            patched = path.read_text(encoding="utf-8")
            path.write_text(wrong, encoding="utf-8")
            subprocess.run([self.shardsim, "fix", "-q", "mine.json"], cwd=folder, check=True)
            self.assertEqual(path.read_text(encoding="utf-8"), patched)
            self.assertNotEqual(patched, wrong)

    def test_a_scenario_comes_from_standard_input(self):
        scenario = (ROOT / "scenarios/quickstart.json").read_text(encoding="utf-8")
        from_file = self.printed("scenarios/quickstart.json", "--json")
        self.assertEqual(self.printed("-", "--json", input=scenario), from_file)
        self.assertNotIn("Next:", self.printed("-", input=scenario))
        piped = self.printed("init", "-o", "-")
        self.assertIn("llama3-8b", self.printed("-", input=piped))


if __name__ == "__main__":
    ShellsTest.shardsim = os.path.abspath(sys.argv.pop(1))
    unittest.main()
