#!/usr/bin/env python3
"""Asks which machine trains a model, and recomputes the answer from its rows: days from tokens per second and
goodput, dollars from days, GPUs and price. Nothing of the program is used for it.

usage: question_figures_test.py SHARDSIM
"""

import csv
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

# One layout for each machine, so that the searches are short.
FIXED = ["tp=1", "cp=1", "pp=1", "dp_replicate=1", "zero_stage=3", "recompute=full", "micro_batch_size=1"]
TOKENS = 1e12
DEADLINE_DAYS = 120
BUDGET = 100e3
PRICES = {"h100": 2.5, "b200": 7.0}


class QuestionFiguresTest(unittest.TestCase):
    shardsim = ""

    def ask(self, *more, code=0):
        command = [self.shardsim, "plan", "llama3-8b", "-q", "--global-batch-size", "128", *more]
        for fixed in FIXED:
            command += ["--fix", fixed]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout

    def rows(self, *more, code=0):
        answer = json.loads(self.ask("--json", *more, code=code))
        self.assertGreater(len(answer["rows"]), 1)
        return answer["rows"]

    def assert_close(self, actual, expected):
        self.assertTrue(math.isclose(actual, expected, rel_tol=1e-12), f"{actual} and {expected}")

    def assert_figures(self, row):
        """Ends of the range swap: the longest days belong to the lowest rate."""
        for rate, days in (("low", "high"), ("centre", "centre"), ("high", "low"), ("by_the_model", "by_the_model")):
            goodput = 1.0 if row["goodput"] is None else row["goodput"]
            expected = TOKENS / (row["tokens_per_s"][rate] * goodput) / 86400
            self.assert_close(row["days"][days], expected)
            self.assert_close(row["gpu_hours"][days], expected * 24 * row["gpus"])
            if row["usd_per_gpu_hour"] is not None:
                self.assert_close(row["usd"][days], expected * 24 * row["gpus"] * row["usd_per_gpu_hour"])

    PRICED = ("--gpus", "2,8,64,128", "--gpu", "h100,b200", "--tokens", "1T", "--usd-per-gpu-hour", "h100=2.5,b200=7",
              "--set", "system.device.memory_gib=64")

    def test_days_and_dollars_follow_from_each_row(self):
        rows = self.rows(*self.PRICED)
        trained = [row for row in rows if "days" in row]
        self.assertGreaterEqual(len(trained), 6)
        for row in trained:
            self.assertEqual(row["usd_per_gpu_hour"], PRICES[row["gpu"]])
            self.assert_figures(row)
            self.assertLess(row["days"]["low"], row["days"]["centre"])
            self.assertLess(row["days"]["centre"], row["days"]["high"])
        costs = [row["usd"]["centre"] for row in trained]
        self.assertEqual(costs, sorted(costs))

    def test_goodput_is_in_the_days_where_failures_are_given(self):
        failures = ("--failures", "gpu_mtbf_hours=5000,restart_s=1200,checkpoint_write_s=60")
        with_failures = {(row["gpu"], row["gpus"]): row for row in self.rows(*self.PRICED, *failures) if "days" in row}
        without = {(row["gpu"], row["gpus"]): row for row in self.rows(*self.PRICED) if "days" in row}
        self.assertEqual(with_failures.keys(), without.keys())
        for key, row in with_failures.items():
            self.assert_figures(row)
            self.assertLess(row["goodput"], 1)
            self.assert_close(row["days"]["centre"] * row["goodput"], without[key]["days"]["centre"])
        # More GPUs fail more often.
        self.assertLess(with_failures["h100", 128]["goodput"], with_failures["h100", 8]["goodput"])

    def test_each_row_that_is_lost_says_to_what(self):
        rows = self.rows(*self.PRICED, "--deadline", f"{DEADLINE_DAYS}d", "--budget", "100k")
        causes = set()
        for row in rows:
            lost_to = set()
            if "days" not in row:
                lost_to.add("memory")
                self.assertGreater(row["least_that_did_not_fit"]["bytes"], row["memory_capacity_bytes"])
                self.assertRegex(row["reason"], "^does not fit: .* needs (at least )?.* of ")
            else:
                if row["days"]["centre"] > DEADLINE_DAYS:
                    lost_to.add("deadline")
                    self.assertIn("late: ", row["reason"])
                if row["usd"]["centre"] > BUDGET:
                    lost_to.add("budget")
                    self.assertIn("over the budget: ", row["reason"])
            self.assertEqual(set(row["lost_to"]), lost_to)
            self.assertEqual(row["fate"] == "holds", not lost_to)
            causes |= lost_to
        self.assertEqual(causes, {"memory", "deadline", "budget"})
        fates = [row["fate"] for row in rows]
        self.assertEqual(fates, sorted(fates, key=["holds", "misses", "not_found", "does_not_fit", "no_layout"].index))
        self.assertEqual(rows[0]["fate"], "holds")

    def test_without_a_price_there_are_gpu_hours_and_no_dollars(self):
        machines = ("--gpus", "64,128", "--gpu", "h100,b200", "--tokens", "1T")
        rows = self.rows(*machines)
        self.assertFalse([row for row in rows if "usd" in row])
        hours = [row["gpu_hours"]["centre"] for row in rows]
        self.assertEqual(hours, sorted(hours))
        text = self.ask(*machines)
        self.assertNotIn("$", text)
        self.assertIn("GPU hours", text)
        self.assertIn("no price", text)

    def test_a_run_of_the_first_layout_has_its_tokens_per_second(self):
        with tempfile.TemporaryDirectory() as folder:
            best = pathlib.Path(folder) / "best.json"
            row = self.rows(*self.PRICED, "--out", str(best))[0]
            run = subprocess.run([self.shardsim, str(best), "--json", "-q"], capture_output=True, text=True, check=True)
        metrics = json.loads(run.stdout)["metrics"]
        self.assertEqual(metrics["tokens_per_s"], row["tokens_per_s"]["by_the_model"])
        self.assert_close(metrics["cost.days"], row["days"]["by_the_model"])
        self.assert_close(metrics["cost.usd"], row["usd"]["by_the_model"])

    def test_text_and_csv_have_the_rows_of_the_json(self):
        rows = self.rows(*self.PRICED)
        text = self.ask(*self.PRICED)
        places = [text.index(row["layout"], text.index("cheapest first")) for row in rows if "layout" in row]
        self.assertTrue(places)
        for row in rows:
            self.assertRegex(text, rf"(?m)^ +{row['gpus']} +{row['gpu']}\b")
        for line in text.splitlines():
            self.assertTrue(len(line) <= 100 or line.startswith("next: "), line)
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder) / "answer.csv"
            self.ask(*self.PRICED, "--csv", str(table))
            cells = list(csv.DictReader(table.read_text().splitlines()))
        self.assertEqual([(c["gpu"], int(c["gpus"]), c["fate"]) for c in cells],
                         [(r["gpu"], r["gpus"], r["fate"]) for r in rows])
        self.assertEqual([float(c["days"]) for c in cells if c["days"]],
                         [r["days"]["centre"] for r in rows if "days" in r])

    def test_an_answer_that_nothing_meets_ends_with_its_own_status(self):
        rows = self.rows(*self.PRICED, "--deadline", "1d", code=1)
        self.assertEqual({row["fate"] for row in rows}, {"misses", "does_not_fit"})
        rows = self.rows(*self.PRICED[4:], "--gpus", "2", "--gpu", "h100,b200", code=3)
        self.assertEqual({row["fate"] for row in rows}, {"does_not_fit"})

    def test_a_number_of_gpus_without_a_layout_does_not_end_the_question(self):
        rows = self.rows("--gpus", "7,8", "--gpu", "h100")
        self.assertEqual([(row["gpus"], row["fate"], row["lost_to"]) for row in rows],
                         [(8, "holds", []), (7, "no_layout", ["layout"])])
        self.assertIn("global batch of 128", rows[1]["reason"])


if __name__ == "__main__":
    QuestionFiguresTest.shardsim = sys.argv.pop()
    unittest.main()
