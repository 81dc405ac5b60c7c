#!/usr/bin/env python3
"""desk points 1, 2, 3, 4, 6, 7, 9 and 10: the commands of planners that failed, and what they print now. A
search is stopped by its limit, so each takes some seconds.

usage: planner_test.py SHARDSIM
"""

import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class PlannerTest(unittest.TestCase):
    shardsim = ""

    def run_command(self, *words):
        return subprocess.run([self.shardsim, *words], capture_output=True, text=True, check=False, cwd=ROOT)

    def plan(self, *words):
        done = self.run_command("plan", *words, "--json", "-q")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return json.loads(done.stdout)

    def test_desk_point_1_a_space_of_any_size_has_a_layout_soon(self):
        """2,000,000 ways were too many, with the status of a plan that does not fit."""
        report = self.plan("deepseek-v3-like", "--gpus", "1024", "--gpu", "h100", "--time-limit", "10")
        self.assertGreater(report["counts"]["candidates"], 2_000_000)
        self.assertGreaterEqual(len(report["ranked"]), 1)
        self.assertEqual(sum(report["counts"][name] for name in (
            "simulated", "pruned_worse", "pruned_too_large", "refused", "failed", "left_open")),
            report["counts"]["candidates"])

    def test_desk_point_1_an_interrupt_prints_what_is_known(self):
        process = subprocess.Popen(
            [self.shardsim, "plan", "deepseek-v3-like", "--gpus", "1024", "--gpu", "h100", "--time-limit", "0",
             "--json", "-q"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        time.sleep(8)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        report = json.loads(out)
        self.assertTrue(report["interrupted"])
        self.assertGreater(report["counts"]["simulated"], 0)

    def test_desk_point_2_a_search_ends_at_its_limit_and_says_how_good_its_best_is(self):
        begin = time.monotonic()
        report = self.plan("llama3-70b", "--gpus", "1024", "--gpu", "h100", "--time-limit", "5")
        self.assertLess(time.monotonic() - begin, 60)
        self.assertIsNotNone(report["gap"])
        best = report["ranked"][0]["metrics"]["step_time_s"]
        bound = report["lower_bound"]["step_time_s"]
        self.assertAlmostEqual(report["gap"], best / bound - 1, places=12)
        usual = self.run_command("plan", "--help").stdout
        self.assertIn("(60; 0: no limit)", re.sub(r"\s+", " ", usual))

    def test_desk_point_3_a_headline_lies_within_its_own_range(self):
        for scenario in ("scenarios/gpt3-175b-1024xa100.json", "scenarios/quickstart.json"):
            bands = json.loads(self.run_command(scenario, "--json", "-q").stdout)["error_bands"]
            self.assertEqual({band["metric"] for band in bands}, {"step_time_s", "memory.device_bytes.max"})
            text = self.run_command(scenario).stdout
            for band in bands:
                self.assertLessEqual(band["low"], band["centre"])
                self.assertLessEqual(band["centre"], band["high"])
            found = re.search(r"step about ([\d.]+) s, \d+ % of runs ([\d.]+) to ([\d.]+) s", text)
            self.assertTrue(float(found[2]) <= float(found[1]) <= float(found[3]), found[0])

    def test_desk_point_3_a_plan_has_ranges(self):
        report = self.plan("llama3-8b", "--gpus", "8", "--gpu", "h100", "--fix", "tp=1", "--fix", "pp=1", "--fix", "cp=1",
                           "--tokens", "1T")
        for row in report["ranked"]:
            self.assertLess(row["days"]["low"], row["days"]["centre"])
            self.assertLess(row["days"]["centre"], row["days"]["high"])

    def test_desk_point_4_a_plan_is_priced_as_a_framework_and_names_it(self):
        fixed = ("--fix", "tp=1", "--fix", "pp=1", "--fix", "cp=1", "--fix", "micro_batch_size=1")
        default = self.plan("llama3-8b", "--gpus", "8", "--gpu", "h100", *fixed)
        priced = [words for words in default["assumptions"] if words.startswith("priced as ")]
        self.assertEqual(len(priced), 1)
        ideal = self.plan("llama3-8b", "--gpus", "8", "--gpu", "h100", *fixed, "--software", "none")
        self.assertLess(ideal["ranked"][0]["metrics"]["step_time_s"], default["ranked"][0]["metrics"]["step_time_s"])
        wrong = self.run_command("plan", "llama3-8b", "--gpus", "8", "--gpu", "h100", "--software", "torchtitan")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("torchtitan-2025", wrong.stderr)

    def test_desk_point_6_tight_layouts_come_last_and_rows_differ(self):
        words = ("gpt2-xl", "--gpus", "8", "--gpu", "a100", "--global-batch-size", "64", "--fix", "cp=1", "--time-limit", "0",
                 "--set", "system.device.memory_gib=20")
        report = self.plan(*words)
        margins = [row["leaves_margin"] for row in report["ranked"]]
        self.assertEqual(margins, sorted(margins, reverse=True))
        families = [tuple(row["fields"][axis] for axis in ("tp", "cp", "pp")) for row in report["ranked"]]
        self.assertEqual(len(families), len(set(families)))
        self.assertGreater(len(families), 2)
        text = self.run_command("plan", *words, "-q").stdout
        ranking = text.split("rank  layout")[1].split("about:")[0]
        # Layouts that are longer than their column go on in the next line.
        printed = re.sub(r"\s+", " ", ranking)
        for row in report["ranked"]:
            for word in row["layout"].split():
                self.assertIn(word, printed)
        self.assertNotIn("…", ranking)
        self.assertNotRegex(ranking, r"\bdp\d+x1\b.*zero")

    def test_desk_point_6_the_first_layout_leaves_a_margin_and_the_fastest_does_not(self):
        words = ("llama3-8b", "--gpus", "64", "--gpu", "h100", "--fix", "tp=1", "--fix", "pp=1", "--fix", "cp=1", "--time-limit", "0")
        best = self.plan(*words)["ranked"][0]
        tight = self.plan(*words, "--memory-margin", "0")["ranked"][0]
        self.assertTrue(best["leaves_margin"])
        self.assertLess(tight["metrics"]["step_time_s"], best["metrics"]["step_time_s"])
        device = 79.6 * 2**30
        self.assertGreater(tight["metrics"]["memory.device_bytes.max"], 0.95 * device)
        self.assertLess(best["metrics"]["memory.device_bytes.max"], 0.95 * device)

    def test_desk_point_7_a_batch_that_the_program_chooses_has_layouts(self):
        for gpus in ("1000", "24", "96"):
            report = self.plan("llama3-8b", "--gpus", gpus, "--gpu", "h100", "--fix", "cp=1", "--fix", "recompute=selective",
                               "--fix", "micro_batch_size=1", "--fix", "schedule=none,1f1b", "--time-limit", "10")
            self.assertGreaterEqual(len(report["ranked"]), 1, gpus)
        large = self.plan("llama3-8b", "--gpus", "1024", "--gpu", "h100", "--fix", "tp=1", "--fix", "cp=1", "--fix", "pp=4",
                          "--fix", "micro_batch_size=1", "--time-limit", "5")
        # A million tokens would leave half of the GPUs without a sequence.
        self.assertEqual(large["global_batch_size"] * large["seq_len"], 4 * 2**20)

    def test_desk_point_9_an_import_ends_in_a_plan_that_fits_or_says_that_none_does(self):
        shapes = (("llama3-70b", "64", 0), ("llama3-8b", "8", 0), ("llama3-70b", "8", 3))
        with tempfile.TemporaryDirectory() as folder:
            for name, gpus, code in shapes:
                config = pathlib.Path(folder) / "config.json"
                config.write_text(CONFIGS[name])
                plan = pathlib.Path(folder) / f"{name}-{gpus}.json"
                done = self.run_command("import", "hf", str(config), "--gpus", gpus, "--gpu", "h100", "--plan",
                                        "-o", str(plan))
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual(plan.exists(), code == 0)
                if code == 0:
                    run = self.run_command(str(plan), "-q")
                    self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
                else:
                    self.assertIn("no layout", done.stderr)
                planned = self.run_command("plan", str(config), "--gpus", gpus, "--gpu", "h100", "-q", "--time-limit", "5",
                                           "--json")
                self.assertEqual(planned.returncode, code, planned.stderr)

    def test_desk_point_10_tokens_give_days_and_failures_lengthen_them(self):
        words = ("llama3-8b", "--gpus", "64", "--gpu", "h100", "--fix", "tp=1", "--fix", "pp=1", "--fix", "cp=1", "--tokens", "1T")
        plain = self.plan(*words)["ranked"][0]
        failing = self.plan(*words, "--failures", "gpu_mtbf_hours=5000,restart_s=1200,checkpoint_write_s=60")["ranked"][0]
        self.assertIsNone(plain["goodput"])
        self.assertGreater(failing["days"]["centre"], plain["days"]["centre"])
        self.assertAlmostEqual(failing["days"]["centre"] * failing["goodput"], plain["days"]["centre"], places=9)
        self.assertIn("downtime not included", self.run_command("plan", *words, "-q").stdout)


def llama(hidden, ffn, layers, heads):
    return json.dumps({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
                       "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads,
                       "num_key_value_heads": 8, "vocab_size": 128256, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
                       "hidden_act": "silu", "max_position_embeddings": 8192, "tie_word_embeddings": False,
                       "torch_dtype": "bfloat16"})


CONFIGS = {"llama3-8b": llama(4096, 14336, 32, 32), "llama3-70b": llama(8192, 28672, 80, 64)}

if __name__ == "__main__":
    PlannerTest.shardsim = str(pathlib.Path(sys.argv.pop()).resolve())
    unittest.main()
