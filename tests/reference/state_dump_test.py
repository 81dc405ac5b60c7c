#!/usr/bin/env python3
"""--dump-state writes whole tensors of the model on one device, whatever the layout.

usage: state_dump_test.py SHARDSIM [TEST...]
"""

import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import safetensors
from dumped_run import ROOT, DumpedRun

SCENARIOS = ROOT / "scenarios"
# The fp64 bound of the simulator's own oracle, relative to the largest value of a kind.
BOUND = 1e-9
# Sharded, tensor-parallel, pipelined (tied embeddings, too), all of these, and experts.
LAYOUTS = ("verify-gpt-zero3", "verify-gpt-hsdp", "verify-gpt-tp4", "verify-gpt-pp4-1f1b",
           "verify-gpt-tp2-pp2-dp2-zero1", "verify-llama-cp2-fsdp4", "verify-llama-ep4-learned",
           "verify-llama-tp2-cp2-pp2-dp4-ep2")
KINDS = ("parameter", "gradient", "optimizer.exp_avg", "optimizer.exp_avg_sq")


def scenario_of(name):
    return SCENARIOS / f"{name}.json"


class DumpTest(unittest.TestCase):
    shardsim = ""

    def run_of(self, name, *overrides, replica=""):
        return DumpedRun(self.shardsim, scenario_of(name), overrides, replica)

    def one_device(self, run):
        """The same training on one device, whose microbatch has the samples of all ranks."""
        scenario = json.loads(json.dumps(run.scenario))
        parallelism = scenario.pop("parallelism")
        scenario.pop("output", None)
        ranks = parallelism["dp_replicate"] * parallelism["dp_shard"]
        scenario["system"].pop("ranks")
        scenario["system"].update(nodes=1, gpus_per_node=1)
        scenario["training"]["micro_batch_size"] *= ranks
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "one.json"
            path.write_text(json.dumps(scenario), encoding="utf-8")
            return DumpedRun(self.shardsim, path)

    def assert_same_tensors(self, one, other):
        self.assertEqual({name: (each.dtype, each.shape) for name, each in one.items()},
                         {name: (each.dtype, each.shape) for name, each in other.items()})

    def assert_near(self, run, reference, step):
        self.assert_same_tensors(run.tensors(step), reference.tensors(step))
        for kind in KINDS:
            expected = reference.of_kind(step, kind)
            scale = max((abs(x) for each in expected.values() for x in each.values()), default=0)
            for name, tensor in run.of_kind(step, kind).items():
                for value, wanted in zip(tensor.values(), expected[name].values()):
                    self.assertLessEqual(abs(value - wanted), BOUND * scale, f"{kind} of {name}")
        for name in ("loss", "gradient_norm") if step > 0 else ():
            wanted = reference.scalar(step, name)
            self.assertLessEqual(abs(run.scalar(step, name) - wanted), BOUND * wanted, name)

    def test_any_layout_has_the_tensors_of_one_device(self):
        for name in LAYOUTS:
            with self.subTest(name):
                run = self.run_of(name)
                reference = self.one_device(run)
                self.assertEqual(run.names, reference.names)
                self.assertGreater(run.steps, 1)
                for step in range(run.steps + 1):
                    self.assertNotIn("incomplete", run.files[step][1])
                    self.assert_near(run, reference, step)
                # First weights depend on no sum, and tokens on nothing, so all bits are equal.
                for tensor, each in run.of_kind(0, "parameter").items():
                    self.assertEqual(each.data, reference.of_kind(0, "parameter")[tensor].data)
                for what in ("inputs", "targets"):
                    self.assertEqual(run.tensors(1)[what].data, reference.tensors(1)[what].data)

    def test_stages_of_sharding_that_add_in_the_same_order_have_the_same_bits(self):
        runs = [self.run_of("verify-gpt-zero2", f"parallelism.zero_stage={stage}")
                for stage in (0, 1)]
        for other in runs[1:]:
            for step in range(other.steps + 1):
                self.assert_same_tensors(other.tensors(step), runs[0].tensors(step))
                for name, tensor in other.tensors(step).items():
                    if name != "gradient_norm":  # The norm sums the same bits in another order.
                        self.assertEqual(tensor.data, runs[0].tensors(step)[name].data, name)

    def test_a_step_of_sgd_goes_from_file_to_file(self):
        run = self.run_of("verify-gpt-zero3", "training.optimizer=sgd", "training.weight_decay=0",
                          "training.max_grad_norm=0.1")
        rate = run.scenario["training"]["learning_rate"]
        for step in range(1, run.steps + 1):
            norm = run.scalar(step, "gradient_norm")
            self.assertGreater(norm, 0.1)  # Clipping acts.
            gradients = run.of_kind(step, "gradient")
            own = math.sqrt(math.fsum(x * x for each in gradients.values() for x in each.values()))
            self.assertAlmostEqual(own / norm, 1, delta=1e-12)
            clip = 0.1 / (norm + 1e-6)
            for name, after in run.of_kind(step, "parameter").items():
                before = run.of_kind(step - 1, "parameter")[name].values()
                for x, g, y in zip(before, gradients[name].values(), after.values()):
                    self.assertAlmostEqual(x - rate * clip * g, y, delta=1e-15)

    def test_scalars_are_those_of_the_result(self):
        run = self.run_of("verify-gpt-tp2-pp2-dp2-fp16")
        skipped = [run.scalar(step, "skipped") for step in range(1, run.steps + 1)]
        metrics = run.result["metrics"]
        self.assertEqual(sum(skipped), metrics["loss_scaling.skipped_steps"])
        self.assertGreater(sum(skipped), 0)
        self.assertEqual(run.steps, run.scenario["execution"]["steps"])
        self.assertEqual(run.scalar(1, "loss_scale"), run.scenario["training"]["loss_scale"])
        for step, was_skipped in enumerate(skipped, start=1):
            before, after = (run.of_kind(each, "master") for each in (step - 1, step))
            changed = any(after[name].data != before[name].data for name in after)
            self.assertEqual(changed, not was_skipped)
        # Gradients are still multiplied by the scale, which is a power of two.
        last = run.steps
        norm = math.sqrt(math.fsum(
            x * x for each in run.of_kind(last, "gradient").values() for x in each.values()))
        self.assertAlmostEqual(norm / run.scalar(last, "loss_scale"),
                               run.scalar(last, "gradient_norm"), delta=1e-12)

    def test_dtypes_are_those_of_the_run(self):
        for precision, dtype in (("fp64", "F64"), ("fp32", "F32"), ("bf16", "BF16"), ("fp16", "F16")):
            run = self.run_of("verify-gpt-zero2", f"training.precision={precision}",
                              "training.grad_reduce_dtype=auto", "execution.steps=1")
            parameters = run.of_kind(1, "parameter")
            self.assertEqual({each.dtype for each in parameters.values()}, {dtype})
            self.assertEqual({run.tensors(1)[name].dtype for name in ("inputs", "targets")}, {"I64"})
            masters = run.of_kind(1, "master")
            self.assertEqual({each.dtype for each in masters.values()},
                             set() if dtype in ("F64", "F32") else {"F32"})

    def test_replicas_that_train_apart_have_a_file_each(self):
        first = self.run_of("verify-llama-diloco", replica="replica-0")
        second = self.run_of("verify-llama-diloco", replica="replica-1")
        self.assertEqual(len(first.names), first.scenario["parallelism"]["dp_replicate"] *
                         (first.steps + 1))
        self.assertEqual(second.files[0][1]["replica"], "1")
        self.assertNotEqual(first.of_kind(1, "gradient")["head"].data,
                            second.of_kind(1, "gradient")["head"].data)

    def test_errors_that_compression_feeds_back_are_there(self):
        run = self.run_of("verify-llama-int8")
        ranks = run.scenario["system"]["ranks"]
        states = {name.split(".")[1] for name in run.tensors(1) if name.startswith("rank_state.")}
        self.assertEqual(states, {"server_error"} | {f"worker_error_of_data_rank_{rank}"
                                                     for rank in range(ranks)})
        self.assertNotIn("incomplete", run.files[1][1])
        for state in states:
            self.assertEqual({name: each.shape for name, each in
                              run.of_kind(1, f"rank_state.{state}").items()},
                             {name: each.shape for name, each in run.of_kind(1, "parameter").items()})

    def test_what_cannot_be_dumped_is_refused(self):
        gpt = str(scenario_of("verify-gpt-tp4"))
        with tempfile.TemporaryDirectory() as folder:
            used = pathlib.Path(folder) / "used"
            used.mkdir()
            (used / "file").touch()
            new = str(pathlib.Path(folder) / "new")
            for code, words in (
                    ("E0953", [str(SCENARIOS / "quickstart.json"), "--dump-state", new]),
                    ("E0954", [gpt, "--dump-state", new, "--explore", "pct"]),
                    ("E0954", [gpt, "--dump-state", new, "--backend", "mpi"]),
                    ("E0956", [gpt, "--dump-state", str(used)]),
                    ("E0910", [gpt, "--dump-state", gpt]),
                    ("E0910", [gpt, "--dump-state", new, "--out", new, "--set", "output.result=r.json"]),
                    ("E0956", [gpt, "--dump-state", str(used / "file")]),
                    ("E0912", [gpt, "--dump-state", ""]),
                    ("E0901", [gpt, "--dump-state", "/dev/null/below"])):
                with self.subTest(words):
                    done = subprocess.run([self.shardsim, "run", *words], cwd=ROOT, text=True,
                                          capture_output=True, check=False)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn(code, done.stdout + done.stderr)
            self.assertFalse(pathlib.Path(new).exists())


class ReaderTest(unittest.TestCase):
    """The reader refuses files of other formats; else it would show nothing."""

    @staticmethod
    def file_of(header, data):
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        return struct.pack("<Q", len(text)) + text + data

    def test_a_file_that_breaks_a_rule_is_refused(self):
        entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
        good = self.file_of({"a": entry}, bytes(8))
        self.assertEqual(safetensors.parse(good)[0]["a"].values(), [0.0, 0.0])
        twice = b'{"a":' + json.dumps(entry).encode() + b',"a":' + json.dumps(entry).encode() + b"}"
        for bad in (good[:-1], good + b"\0", good[:7], b"\xff" * 8 + good[8:],
                    self.file_of({"a": {**entry, "shape": [3]}}, bytes(8)),
                    self.file_of({"a": {**entry, "data_offsets": [4, 12]}}, bytes(12)),
                    self.file_of({"a": entry, "b": entry}, bytes(8)),
                    self.file_of({"a": entry, "__metadata__": {"steps": 1}}, bytes(8)),
                    self.file_of(twice, bytes(8))):
            with self.assertRaises(safetensors.FormatError):
                safetensors.parse(bad)

    def test_bfloat16_is_the_upper_half_of_a_float(self):
        self.assertEqual(safetensors.Tensor("BF16", [2], b"\x80\x3f\x00\xc0").values(), [1.0, -2.0])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    DumpTest.shardsim = sys.argv.pop(1)
    unittest.main()
