#!/usr/bin/env python3
"""README called a plan without system.software faster than any framework, but one was faster.

usage: faster_than_frameworks_test.py SHARDSIM
"""

import json
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENDS = (0, 3)  # 3: the plan does not fit; some frameworks store more.


def words(percent):
    return f"{abs(percent)} % {'less' if percent < 0 else 'more'}"


class FasterThanFrameworksTest(unittest.TestCase):
    shardsim = ""

    def step_time(self, software):
        done = subprocess.run([self.shardsim, "scenarios/quickstart.json", "--set", f"system.software={software}", "--json"],
                              cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False, text=True)
        self.assertIn(done.returncode, ENDS)
        return json.loads(done.stdout)["metrics"]["step_time_s"]

    def test_steps_of_frameworks_take_as_much_more_or_less_as_readme_and_guide_say(self):
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        said = re.search(r"the step takes (\d+ % \w+) \(`(.+?)`\) to (\d+ % \w+) \(`(.+?)`\)", readme)
        self.assertIsNotNone(said, "README does not say how much more the step takes under a framework")
        reference = (ROOT / "docs/guide/scenario-reference.md").read_text(encoding="utf-8")
        names = re.findall(r"`(.+?)`", re.search(r"^\| `software` \| (.+?) \|", reference, re.MULTILINE).group(1))
        steps = {name: self.step_time(name) for name in names}
        longer = {name: round(100 * (step / steps["none"] - 1)) for name, step in steps.items() if name != "none"}
        self.assertGreaterEqual(len(longer), 7)
        least, most = min(longer.values()), max(longer.values())
        self.assertEqual((words(least), longer[said.group(2)]), (said.group(1), least), longer)
        self.assertEqual((words(most), longer[said.group(4)]), (said.group(3), most), longer)
        guide = (ROOT / "docs/guide/reading-results.md").read_text(encoding="utf-8")
        self.assertIn(f"takes {words(least)} to {words(most)} under the frameworks that are known", guide)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    FasterThanFrameworksTest.shardsim = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
