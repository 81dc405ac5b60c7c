#!/usr/bin/env python3
"""Five steps of Muon on one device agree with PyTorch on the same weights and tokens.

usage: golden_muon_test.py SHARDSIM [TEST...]

Compares with golden_muon.safetensors, without PyTorch; with it, makes that file anew and compares it.
"""

import importlib.util
import sys
import unittest

import golden_muon
import golden_test
import safetensors


class GoldenMuonTest(unittest.TestCase):
    shardsim = ""

    def compare(self, values, expected, what):
        self.assertEqual(len(values), len(expected), what)
        error, worst = golden_test.largest_error(values, expected)
        self.assertLessEqual(error, golden_test.BOUND, f"{what}: element {worst} is "
                                                       f"{values[worst]!r}, PyTorch has "
                                                       f"{expected[worst]!r}")

    def test_five_steps_are_those_of_pytorch(self):
        tensors, _ = safetensors.read(golden_muon.GOLDEN)
        self.assertEqual(len(tensors), len(golden_muon.VECTORS) * len(golden_muon.CASES))
        for case in golden_muon.CASES:
            with self.subTest(case):
                run = golden_muon.dumped(self.shardsim, case)
                self.assertEqual(run.steps, 5)
                steps = range(1, run.steps + 1)
                self.compare([run.scalar(step, "loss") for step in steps],
                             tensors[f"{case}/losses"].values(), "losses")
                self.compare([run.scalar(step, "gradient_norm") for step in steps],
                             tensors[f"{case}/gradient_norms"].values(), "norms of gradients")
                self.compare_parameters(run, tensors[f"{case}/parameters"].values())

    def compare_parameters(self, run, expected):
        parameters = run.of_kind(run.steps, "parameter")
        first = 0
        for name in sorted(parameters):
            values = parameters[name].values()
            self.assertNotEqual(values, run.of_kind(0, "parameter")[name].values(), name)
            self.compare(values, expected[first:first + len(values)], name)
            first += len(values)
        self.assertEqual(first, len(expected))

    @unittest.skipUnless(importlib.util.find_spec("torch"), "there is no PyTorch here")
    def test_pytorch_makes_the_golden_file_again(self):
        tensors, _ = safetensors.read(golden_muon.GOLDEN)
        again = golden_muon.computed(self.shardsim)
        self.assertEqual(set(again), set(tensors))
        for name, values in again.items():
            self.compare(values, tensors[name].values(), name)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    GoldenMuonTest.shardsim = sys.argv.pop(1)
    unittest.main()
