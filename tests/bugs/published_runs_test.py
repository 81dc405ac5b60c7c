#!/usr/bin/env python3
"""Figures of published runs went stale in decisions. A page has them now, and this test runs its scenarios and
compares the table and the figures that the command prints.

usage: published_runs_test.py SHARDSIM
"""

import functools
import json
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/guide/published-runs.md"
QUANTITIES = {
    "seconds a step": lambda metrics: metrics["step_time_s"],
    "MFU, %": lambda metrics: 100 * metrics["mfu"],
}


class PublishedRunsTest(unittest.TestCase):
    shardsim = ""

    @functools.lru_cache(maxsize=None)
    def run_of(self, scenario, *overrides):
        words = [word for override in overrides for word in ("--set", override)]
        done = subprocess.run([self.shardsim, scenario, "--json", *words], cwd=ROOT, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, check=False, text=True)
        self.assertIn(done.returncode, (0, 3), scenario)  # 3: it does not fit.
        return json.loads(done.stdout)

    def page(self):
        return (ROOT / PAGE).read_text(encoding="utf-8")

    def rows(self):
        return re.findall(r"(?m)^\| `(scenarios/\S+)` \| (.+?) \| ([\d.]+) \| ([\d.]+) \| ([+-]\d+) % \| "
                          r"([\d.]+) of ([\d.]+) GiB \|$", self.page())

    def mfu(self, scenario, *overrides):
        return f"{100 * self.run_of(scenario, *overrides)['metrics']['mfu']:.1f}"

    def test_every_figure_of_the_table_is_what_the_command_says(self):
        rows = self.rows()
        self.assertEqual(len(rows), 4)
        for scenario, quantity, published, predicted, error, needs, has in rows:
            with self.subTest(scenario=scenario):
                result = self.run_of(scenario)
                value = QUANTITIES[quantity](result["metrics"])
                self.assertEqual(predicted, f"{value:.1f}")
                self.assertEqual(error, f"{100 * (value / float(published) - 1):+.0f}")
                self.assertEqual(needs, f"{result['metrics']['memory.device_bytes.max'] / 2**30:.1f}")
                self.assertEqual(has, f"{result['scenario']['system']['device']['memory_gib']:.1f}")
                name = result["scenario"]["name"]
                self.assertRegex(name, rf"as published it (took|had) {re.escape(published)}( s| %)")

    def test_the_words_below_are_figures_of_the_command(self):
        text = re.sub(r"\s+", " ", self.page())
        deepseek = self.run_of("scenarios/deepseek-v3-2048xh800.json")["metrics"]
        for name, words in (("time.compute_s", "s of computing"), ("time.exposed_comm_s", "s of waiting for tokens"),
                            ("time.bubble_s", "s of idle time in the pipeline")):
            self.assertIn(f"{deepseek[name]:.1f} {words}", text)
        before = self.run_of("scenarios/deepseek-v3-2048xh800.json", "parallelism.expert_dispatch=per_expert",
                             "parallelism.schedule=zb_v")["metrics"]
        self.assertIn(f"it is {before['step_time_s']:.1f} s.", text)
        short, long = "scenarios/llama3-405b-16384xh100.json", "scenarios/llama3-405b-16384xh100-cp16.json"
        many, ideal = "parallelism.reductions_in_flight=16", "system.software=none"
        self.assertIn(f"MFU is {self.mfu(short, many)} and {self.mfu(long, many)} %", text)
        self.assertIn(f"MFU at 128K tokens is {self.mfu(long, ideal)} %, and {self.mfu(long, many, ideal)} % with 16", text)
        for name in (short, long, "scenarios/llama3-405b-8192xh100.json", "scenarios/deepseek-v3-2048xh800.json"):
            self.assertEqual(self.run_of(name)["scenario"]["system"]["software"], "megatron-core-2025")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PublishedRunsTest.shardsim = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
