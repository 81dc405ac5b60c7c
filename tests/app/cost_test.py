#!/usr/bin/env python3
"""The cost of the command as a process: processor time (user and system), which other work on the
machine changes little, and memory.

usage: cost_test.py SHARDSIM WHY_NOT [TEST...]

WHY_NOT is empty, or the reason why figures of this build would say nothing: then all is skipped.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RANKS = 16384


class CostTest(unittest.TestCase):
    shardsim = ""
    why_not = ""

    def setUp(self):
        if self.why_not:
            self.skipTest(self.why_not)

    def cost_of(self, *arguments):
        """(seconds of processor time, most resident bytes, standard output) of a plan, which may not
        fit on the device: it costs the same."""
        with tempfile.TemporaryFile() as out:
            with subprocess.Popen([self.shardsim, *arguments], cwd=ROOT, stdin=subprocess.DEVNULL,
                                  stdout=out, stderr=subprocess.DEVNULL) as process:
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            self.assertIn(process.returncode, (0, 3))
            out.seek(0)
            return usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss, out.read()


class QuickstartTest(CostTest):
    def test_the_main_job_takes_less_than_a_second(self):
        # The cheapest of three: what shares the processor's caches only adds.
        seconds = min(self.cost_of("scenarios/quickstart.json")[0] for _ in range(3))
        self.assertLess(seconds, 1.0)


class LargestWorldTest(CostTest):
    def test_gpt2_xl_on_16384_ranks_takes_seconds_and_a_gigabyte(self):
        seconds, resident, out = self.cost_of(
            "scenarios/gpt2-xl-zero2-32xa100.json", "--set", "parallelism.zero_stage=0",
            "--set", "system.nodes=2048", "--set", "training.num_microbatches=1",
            "--set", "training.global_batch_size=65536", "--json")
        metrics = json.loads(out)["metrics"]
        self.assertEqual(metrics["ranks"], RANKS)
        self.assertGreater(metrics["comm.calls.total"], RANKS)
        print(f"{seconds:.1f} s of processor time, {resident / RANKS:.0f} bytes per rank")
        # Seconds, not minutes, on a slow machine too.
        self.assertLess(seconds, 60.0)
        self.assertLess(resident / RANKS, 64 * 1024)

    def test_llama3_405b_on_16384_ranks_takes_seconds_and_less_than_two_gibibytes(self):
        seconds, resident, out = self.cost_of(
            "tests/bench/llama3-405b-16384xh100-1f1b.json", "--set", "execution.fold=off", "--json")
        calls = json.loads(out)["metrics"]["comm.calls.total"]
        print(f"{seconds:.1f} s of processor time, {calls / seconds / 1e6:.2f} M calls of ranks per "
              f"second, {resident / RANKS:.0f} bytes per rank")
        self.assertLess(seconds, 180.0)
        self.assertLess(resident, 2 << 30)


class FoldedWorldTest(CostTest):
    """Replicas that do the same are replayed once: the figures of the run for less."""

    def cost_folded(self, scenario, *arguments):
        """Seconds of processor time folded, and with every rank run, of plans with equal metrics."""
        costs = {}
        metrics = {}
        for fold, engine in (("require", "auto"), ("off", "run")):
            costs[fold], _, out = self.cost_of(scenario, "--set", f"execution.fold={fold}", "--set",
                                               f"execution.engine={engine}", "--json", *arguments)
            metrics[fold] = json.loads(out)["metrics"]
            metrics[fold].pop("trace_hash")
        self.assertEqual(metrics["require"], metrics["off"])
        print(f"{scenario}: {costs['require']:.2f} s instead of {costs['off']:.2f} s")
        return costs["require"], costs["off"]

    def test_gpt3_on_1024_ranks_costs_a_fourth(self):
        folded, whole = self.cost_folded("scenarios/gpt3-175b-1024xa100.json")
        self.assertLess(folded, whole / 4)

    def test_llama3_405b_on_16384_ranks_costs_a_tenth(self):
        folded, whole = self.cost_folded("tests/bench/llama3-405b-16384xh100-1f1b.json")
        self.assertLess(folded, whole / 10)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    CostTest.shardsim = sys.argv.pop(1)
    CostTest.why_not = sys.argv.pop(1)
    unittest.main()
