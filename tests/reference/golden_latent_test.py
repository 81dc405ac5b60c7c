#!/usr/bin/env python3
"""Losses and gradients on one device agree with transformers' latent attention in PyTorch.

usage: golden_latent_test.py SHARDSIM [TEST...]

Compares with golden_latent.safetensors, without PyTorch; with it, makes that file anew and compares it.
"""

import importlib.util
import sys
import unittest

import golden_latent
import golden_test
import safetensors

# Each changes the attention, so that the golden file must tell the difference.
CHANGES = ("model.attention_scale=0.3", "model.rope_theta=100", "model.norm_epsilon=0.01")


class GoldenLatentTest(unittest.TestCase):
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
        tensors, _ = safetensors.read(golden_latent.GOLDEN)
        self.assertEqual(len(tensors), 2 * len(golden_latent.CASES))
        for case in golden_latent.CASES:
            with self.subTest(case):
                run = golden_latent.dumped(self.shardsim, case)
                self.assertEqual(run.steps, 3)
                errors = self.errors(run, case, tensors)
                self.assertIn("blocks.1.attention.kv_norm", errors)
                self.assertEqual("blocks.1.attention.q_norm" in errors, case == "latent")
                for what, error in errors.items():
                    self.assertLessEqual(error, golden_test.BOUND, what)

    def test_the_golden_file_tells_what_attention_is_about(self):
        tensors, _ = safetensors.read(golden_latent.GOLDEN)
        for change in CHANGES:
            with self.subTest(change=change):
                run = golden_latent.dumped(self.shardsim, "latent", change)
                self.assertGreater(max(self.errors(run, "latent", tensors).values()), 1e-4)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "there is no PyTorch here")
    def test_pytorch_makes_the_golden_file_again(self):
        tensors, _ = safetensors.read(golden_latent.GOLDEN)
        again = golden_latent.computed(self.shardsim)
        self.assertEqual(set(again), set(tensors))
        for name, values in again.items():
            error, _ = golden_test.largest_error(values, tensors[name].values())
            self.assertLessEqual(error, golden_test.BOUND, name)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    GoldenLatentTest.shardsim = sys.argv.pop(1)
    unittest.main()
