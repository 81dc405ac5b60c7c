#!/usr/bin/env python3
"""Training on one device agrees with PyTorch on the same weights and tokens.

usage: golden_test.py SHARDSIM [TEST...]

Compares with golden.safetensors, without PyTorch; with it, makes that file anew and compares it.
"""

import importlib.util
import sys
import unittest

import golden
import safetensors

# Both compute in fp64, but in other orders. Errors are relative to the largest value of their kind,
# since sums near zero cancel.
BOUND = 1e-9


def largest_error(values, expected):
    """The largest error relative to the largest expected value, and its element."""
    scale = max(abs(value) for value in expected)
    errors = [abs(a - b) / scale for a, b in zip(values, expected)]
    worst = max(range(len(errors)), key=errors.__getitem__)
    return errors[worst], worst


class GoldenTest(unittest.TestCase):
    shardsim = ""

    def compare(self, values, expected, what):
        self.assertEqual(len(values), len(expected), what)
        error, worst = largest_error(values, expected)
        self.assertLessEqual(error, BOUND, f"{what}: element {worst} is {values[worst]!r}, "
                                           f"PyTorch has {expected[worst]!r}")

    def test_five_steps_of_each_optimizer_are_those_of_pytorch(self):
        tensors, _ = safetensors.read(golden.GOLDEN)
        self.assertEqual(len(tensors), 3 * len(golden.CASES))
        for case in golden.CASES:
            with self.subTest(case):
                run = golden.dumped(self.shardsim, *case)
                of_case = {what: tensors[golden.entry(case, what)].values()
                           for what in ("losses", "gradient_norms", "parameters")}
                steps = range(1, run.steps + 1)
                self.assertEqual(run.steps, 5)
                self.compare([run.scalar(step, "loss") for step in steps], of_case["losses"],
                             "losses")
                self.compare([run.scalar(step, "gradient_norm") for step in steps],
                             of_case["gradient_norms"], "norms of gradients")
                self.compare_parameters(run, of_case["parameters"])
                limit = golden.LIMITS[case[-1]]
                if limit > 0:
                    self.assertGreater(min(of_case["gradient_norms"]), limit)  # The limit acts.

    def compare_parameters(self, run, expected):
        parameters = run.of_kind(run.steps, "parameter")
        first = 0
        for name in sorted(parameters):
            values = parameters[name].values()
            before = run.of_kind(0, "parameter")[name].values()
            self.assertNotEqual(values, before, f"{name} has not been trained")
            self.compare(values, expected[first:first + len(values)], name)
            first += len(values)
        self.assertEqual(first, len(expected))

    def test_experts_drop_tokens(self):
        run = golden.dumped(self.shardsim, "experts", "adam", "free")
        self.assertGreater(run.result["metrics"]["moe.dropped_tokens"], 0)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "there is no PyTorch here")
    def test_pytorch_makes_the_golden_file_again(self):
        tensors, _ = safetensors.read(golden.GOLDEN)
        again = golden.computed(self.shardsim)
        self.assertEqual(set(again), set(tensors))
        for name, values in again.items():
            self.compare(values, tensors[name].values(), name)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    GoldenTest.shardsim = sys.argv.pop(1)
    unittest.main()
