"""Follows docs/guide/serve.md: runs its last commands, and compares the codes and paths that it names with
those that there are.

usage: guide_test.py SHARDSIM
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SHARDSIM = ""
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/guide/serve.md").read_text(encoding="utf-8")
COMMANDS = re.search(r"<!-- run by: tests/serve/guide_test.py -->\n```\n(.*?)```", PAGE, re.DOTALL).group(1).splitlines()


class GuideTest(unittest.TestCase):
    @unittest.skipIf(shutil.which("curl") is None, "there is no curl")
    def test_the_commands_give_the_result_of_run(self):
        begin, ask, end = COMMANDS
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "scenarios").symlink_to(ROOT / "scenarios")
            pathlib.Path(folder, "shardsim").symlink_to(SHARDSIM)
            environment = {**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"]}
            # A script is faster than hands.
            script = f"set -m\n{begin}\nwhile [ ! -s address ]; do sleep 0.05; done\n{ask}\n{end}\nwait\n"
            subprocess.run(["bash", "-c", script], cwd=folder, env=environment, check=True, timeout=120)
            own = subprocess.run([SHARDSIM, "scenarios/quickstart.json", "--json", "-q"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
            self.assertEqual(pathlib.Path(folder, "result.json").read_bytes(), own.stdout)

    def test_the_codes_are_those_of_the_sources(self):
        sources = "\n".join(path.read_text(encoding="utf-8") for folder in ("sim/serve", "scenarios") for path in (ROOT / folder).glob("*.cpp"))
        codes = set(re.findall(r"E\d{4}", PAGE))
        self.assertTrue(codes)
        for code in codes:
            self.assertIn(f'"{code}"', sources)

    def test_the_requests_are_those_of_the_gate(self):
        gate = (ROOT / "sim/serve/gate.cpp").read_text(encoding="utf-8")
        named = re.findall(r"^\| `(GET|POST) (\w+)`", PAGE, re.MULTILINE)
        self.assertEqual(len(named), 4)
        for method, name in named:
            self.assertIn(f'Route{{"{method}", "{name}"', gate)


if __name__ == "__main__":
    SHARDSIM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
