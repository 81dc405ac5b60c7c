#!/usr/bin/env python3
"""Losses and gradients on one device agree with transformers' routers, attention and mixers, and
Megatron-Core's multi-token prediction, in PyTorch.

usage: golden_transformers_test.py SHARDSIM [TEST...]

Compares with golden_transformers.safetensors, without PyTorch; with it, makes that file anew and compares
it.
"""

import importlib.util
import sys
import unittest

from dumped_run import DumpedRun
import golden
import golden_test
import golden_transformers
import safetensors

# Each changes what its case is about, so that the golden file must tell the difference.
CHANGES = (
    ("deepseek_v3", "model.moe_router_scaling_factor=1"),
    ("deepseek_v3", "model.moe_router_group_topk=4"),
    ("deepseek_v3", "model.moe_router_bias_update_rate=0.0001"),
    ("ernie4_5_moe", "model.moe_router_bias_update_rate=0.0001"),
    ("ernie4_5_moe", "model.moe_router_normalised=false"),
    ("falcon_h1", "model.rope_theta=100"),
    ("falcon_h1", "model.mlp_gate_scale=1"),
    ("falcon_h1", "model.mlp_output_scale=1"),
    ("falcon_h1", "model.mamba_z_scale=1"),
    ("falcon_h1", "model.mamba_x_scale=1"),
    ("falcon_h1", "model.mamba_b_scale=1"),
    ("falcon_h1", "model.mamba_c_scale=1"),
    ("falcon_h1", "model.mamba_dt_scale=1"),
    ("falcon_h1", "model.mamba_output_scale=1"),
    ("gemma4", "model.value_norm=false"),
    ("gemma4", "model.attention_scale=0"),
    ("gemma4", 'model.layers=[{"attention": "sliding", "window_size": 5, "repeats": 2},'
               ' {"num_query_groups": 1, "head_dim": 12, "rotary_dim": 6, "keys_are_values": true}]'),
    ("gemma4", 'model.layers=[{"attention": "sliding", "window_size": 5, "repeats": 2},'
               ' {"num_query_groups": 1, "head_dim": 12, "rope_theta": 1000, "keys_are_values": true}]'),
    ("gpt_oss", 'model.layers=[{"attention": "sliding", "window_size": 4, "sinks": true},'
                ' {"sinks": true}]'),
    ("gpt_oss", 'model.layers=[{"sinks": true}]'),
    ("llama4", "model.moe_weight_on_input=false"),
    ("llama4", 'model.layers=[{"attention": "chunked", "chunk_size": 6, "repeats": 3}]'),
    ("llama4", "model.query_key_norm=none"),
    ("llama4", "model.query_temperature_scale=0"),
    ("llama4", "model.query_temperature_floor=4"),
    ("mimo_v2", "model.value_scale=1"),
    ("mimo_v2", "model.rotary_dim=4"),
    ("mimo_v2", 'model.layers=[{}, {"attention": "sliding", "window_size": 5, "sinks": true,'
                ' "repeats": 2, "num_attention_heads": 6, "num_query_groups": 2, "head_dim": 12,'
                ' "value_head_dim": 4, "rotary_dim": 4}]'),
    ("mimo_v2", "model.moe_router_bias_update_rate=0.0001"),
    ("multi_token", "model.mtp_loss_scaling_factor=0.1"),
    ("nemotron_h", 'model.layers=[{"mixer": "mamba", "feed_forward": "none"}, {"mixer": "none"},'
                   ' {"feed_forward": "none"}, {"mixer": "none"}]'),
    ("nemotron_h", "model.moe_router_scaling_factor=1"),
    ("nemotron_h", "model.moe_router_bias_update_rate=0.0001"),
    ("step3p5", "model.rotary_dim=8"),
    ("step3p5", "model.norm_zero_centred=false"),
    ("step3p5", 'model.layers=[{}, {"attention": "sliding", "window_size": 5, "rope_theta": 500,'
                ' "num_attention_heads": 6, "repeats": 2}]'),
    ("step3p5", 'model.layers=[{}, {"attention": "sliding", "window_size": 5,'
                ' "num_attention_heads": 6, "rotary_dim": 8, "repeats": 2}]'),
)


class GoldenTransformersTest(unittest.TestCase):
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
        tensors, _ = safetensors.read(golden_transformers.GOLDEN)
        self.assertEqual(len(tensors), 2 * len(golden_transformers.CASES))
        for case in golden_transformers.CASES:
            with self.subTest(case):
                run = golden_transformers.dumped(self.shardsim, case)
                self.assertEqual(run.steps, 4)
                for what, error in self.errors(run, case, tensors).items():
                    self.assertLessEqual(error, golden_test.BOUND, what)

    def test_the_golden_file_tells_what_each_case_is_about(self):
        tensors, _ = safetensors.read(golden_transformers.GOLDEN)
        for case, change in CHANGES:
            with self.subTest(case=case, change=change):
                run = DumpedRun(self.shardsim, golden.HERE / f"{case}.json", (change,))
                self.assertGreater(max(self.errors(run, case, tensors).values()), 1e-4)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "there is no PyTorch here")
    def test_pytorch_makes_the_golden_file_again(self):
        tensors, _ = safetensors.read(golden_transformers.GOLDEN)
        again = golden_transformers.computed(self.shardsim)
        self.assertEqual(set(again), set(tensors))
        for name, values in again.items():
            error, _ = golden_test.largest_error(values, tensors[name].values())
            self.assertLessEqual(error, golden_test.BOUND, name)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    GoldenTransformersTest.shardsim = sys.argv.pop(1)
    unittest.main()
