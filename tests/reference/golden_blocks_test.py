#!/usr/bin/env python3
"""Losses and gradients on one device agree with transformers' blocks in PyTorch.

usage: golden_blocks_test.py SHARDSIM [TEST...]

Compares with golden_blocks.safetensors, without PyTorch; with it, makes that file anew and compares it.
"""

import importlib.util
import sys
import unittest

import golden_blocks
import golden_test
import safetensors

# Each changes what its case is about, so that the golden file must tell the difference.
CHANGES = (
    ("gemma2", "model.activation=swiglu"),
    ("gemma2", "model.embedding_scale=1"),
    ("gemma2", "model.final_logit_cap=0"),
    ("gemma2", "model.attention_logit_cap=0"),
    ("clamped_experts", "model.swiglu_limit=7"),
    ("clamped_experts", "model.activation=swiglu"),
)


class GoldenBlocksTest(unittest.TestCase):
    shardsim = ""

    def errors(self, run, case, tensors):
        """The largest errors of losses and of each gradient, by name, relative to the largest value."""
        losses = [run.scalar(step, "loss") for step in range(1, run.steps + 1)]
        expected = tensors[f"{case}/losses"].values()
        self.assertEqual(len(losses), len(expected))
        errors = {"losses": golden_test.largest_error(losses, expected)[0]}
        expected, first = tensors[f"{case}/gradients"].values(), 0
        for name, gradient in sorted(run.of_kind(run.steps, "gradient").items()):
            values = gradient.values()
            errors[name] = golden_test.largest_error(values, expected[first:first + len(values)])[0]
            first += len(values)
        self.assertEqual(first, len(expected))
        return errors

    def test_losses_and_every_gradient_are_those_of_pytorch(self):
        tensors, _ = safetensors.read(golden_blocks.GOLDEN)
        self.assertEqual(len(tensors), 2 * len(golden_blocks.CASES))
        for case in golden_blocks.CASES:
            with self.subTest(case):
                run = golden_blocks.dumped(self.shardsim, case)
                self.assertEqual(run.steps, 4)
                for what, error in self.errors(run, case, tensors).items():
                    self.assertLessEqual(error, golden_test.BOUND, what)

    def test_the_golden_file_tells_what_each_case_is_about(self):
        tensors, _ = safetensors.read(golden_blocks.GOLDEN)
        for case, change in CHANGES:
            with self.subTest(case=case, change=change):
                run = golden_blocks.dumped(self.shardsim, case, (change,))
                self.assertGreater(max(self.errors(run, case, tensors).values()), 1e-5)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "there is no PyTorch here")
    def test_pytorch_makes_the_golden_file_again(self):
        tensors, _ = safetensors.read(golden_blocks.GOLDEN)
        again = golden_blocks.computed(self.shardsim)
        self.assertEqual(set(again), set(tensors))
        for name, values in again.items():
            error, _ = golden_test.largest_error(values, tensors[name].values())
            self.assertLessEqual(error, golden_test.BOUND, name)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    GoldenBlocksTest.shardsim = sys.argv.pop(1)
    unittest.main()
