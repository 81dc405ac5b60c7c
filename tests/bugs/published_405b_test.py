#!/usr/bin/env python3
"""The one published run of the guide had no test: its scenario, its table and its comments could say
three different things.

usage: published_405b_test.py SHARDSIM
"""

import functools
import json
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = "scenarios/llama3-405b-16384xh100.json"
# The sharded state in the words of the guide, and the stage that shards it.
STAGES = {"optimizer state": 1, "gradients and optimizer state": 2, "weights, gradients and optimizer state": 3}


def words_of(path):
    """A text without line breaks and comment signs."""
    return re.sub(r"\s*\n(?://)?\s*", " ", (ROOT / path).read_text(encoding="utf-8"))


class Published405bTest(unittest.TestCase):
    shardsim = ""

    @functools.lru_cache(maxsize=None)
    def run_of(self, *overrides):
        """(exit code, result)"""
        words = [word for override in overrides for word in ("--set", override)]
        done = subprocess.run([self.shardsim, FILE, "--json", *words], cwd=ROOT, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, check=False, text=True)
        return done.returncode, json.loads(done.stdout)

    def found(self, pattern, text):
        match = re.search(pattern, text)
        self.assertIsNotNone(match, f"there is no /{pattern}/")
        return match.groups()

    def row(self, name):
        """(published, predicted) of the guide's table."""
        page = (ROOT / "docs/guide/scale.md").read_text(encoding="utf-8")
        return self.found(rf"(?m)^\| {re.escape(name)} \| (.+?) \| (.+?) \|$", page)

    def mfu(self, *overrides):
        return f"{100 * self.run_of(*overrides)[1]['metrics']['mfu']:.1f}"

    def test_the_scenario_is_what_the_guide_says_of_it(self):
        scenario = self.run_of()[1]["scenario"]
        parallelism, training = scenario["parallelism"], scenario["training"]
        guide = words_of("docs/guide/scale.md")
        self.assertIn("an interleaved schedule with one layer less on the first and the last stage", guide)
        self.assertEqual(parallelism["schedule"], "interleaved_1f1b")
        chunks, stages = parallelism["stage_layers"], parallelism["pp"]
        layers = [sum(chunks[stage::stages]) for stage in range(stages)]
        self.assertEqual(len(chunks), stages * parallelism["vpp"])
        self.assertEqual(sum(layers), 126)
        self.assertEqual(len(set(layers[1:-1])), 1)
        self.assertEqual((layers[0], layers[-1]), (layers[1] - 1, layers[1] - 1))
        dtype, sharded = self.found(r"Gradients are added up and reduced in (\w+); (.+?) are sharded; "
                                    r"nothing is recomputed", guide)
        self.assertEqual(training["grad_reduce_dtype"], dtype)
        self.assertEqual(dtype, "fp32")
        self.assertEqual(parallelism["zero_stage"], STAGES[sharded])
        self.assertEqual(training["recompute"], "none")
        tp, pp, groups, sequences = map(int, self.found(
            r"It has tp (\d+), pp (\d+), (\d+) data-parallel groups of (\d+) sequences", guide))
        self.assertEqual((tp, pp, groups), (parallelism["tp"], stages, parallelism["dp_shard"]))
        self.assertEqual(groups * sequences, training["global_batch_size"])
        self.assertEqual(scenario["system"]["ranks"], 16384)

    def test_published_and_predicted_stand_side_by_side(self):
        metrics = self.run_of()[1]["metrics"]
        comment = words_of(FILE)
        tflops, published = self.found(r"Published: (\d+) TFLOP/s per GPU, (\d+) % MFU", comment)
        self.assertEqual(self.row("TFLOP/s per GPU"), (tflops, f"{metrics['model_tflops_per_gpu']:.0f}"))
        self.assertEqual(self.row("MFU"), (f"{published} %", f"{self.mfu()} %"))
        self.assertIn(f"as published it had {published} % MFU", self.run_of()[1]["scenario"]["name"])

    def test_guide_and_comment_say_what_more_reductions_in_flight_change(self):
        many = self.mfu("parallelism.reductions_in_flight=16")
        self.assertEqual(self.found(r"with 16 MFU is ([\d.]+) instead of ([\d.]+) %", words_of(FILE)),
                         (many, self.mfu()))
        self.assertEqual(self.found(r"reductions_in_flight=2` MFU is ([\d.]+) %, with 16 it is ([\d.]+) %",
                                    words_of("docs/guide/scale.md")),
                         (self.mfu("parallelism.reductions_in_flight=2"), many))

    def test_it_fits_with_less_left_than_is_asked_for(self):
        code, result = self.run_of()
        self.assertEqual(code, 0)
        self.assertTrue(all(check["passed"] for check in result["checks"]), result["checks"])
        self.assertIn("memory", [check["name"] for check in result["checks"]])
        published, predicted = self.row("fits in 80 GB without recomputation")
        self.assertEqual(published, "yes")
        (percent,) = self.found(r"^yes, and leaves less than (\d+) %$", predicted)
        device = result["scenario"]["system"]["device"]["memory_gib"] * 2**30
        left = 1 - result["metrics"]["memory.device_bytes.max"] / device
        self.assertGreaterEqual(left, 0)
        self.assertLess(100 * left, int(percent))
        (warning,) = [text for text in result["warnings"] if "may run out of device memory" in text]
        self.assertIn(f"execution.memory_margin asks for {percent} % to be left", warning)
        done = subprocess.run([self.shardsim, FILE], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              check=True, text=True)
        self.assertIn(warning, re.sub(r"\s+", " ", done.stdout))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    Published405bTest.shardsim = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
