#!/usr/bin/env python3
"""A spreadsheet computed cells of our tables: a scenario's name may begin like a formula. Only the
function that writes a cell had a test; here are the tables of all commands.

usage: csv_formula_test.py SHARDSIM
"""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HOSTILE = "=cmd|' /C calc'!A0"
STARTS = ("=", "+", "@", "\t", "\r")
SCENARIO = {
    "schema_version": 1,
    "name": HOSTILE,
    "model": {"family": "llama", "num_layers": 2, "hidden_size": 32, "ffn_hidden_size": 64,
              "num_attention_heads": 4, "vocab_size": 64, "seq_len": 16},
    "system": {
        "name": HOSTILE, "nodes": 2, "gpus_per_node": 4,
        "intra_node": {"bandwidth_gb_per_s": 100, "latency_us": 2},
        "inter_node": {"bandwidth_gb_per_s": 10, "latency_us": 5},
        "device": {
            "name": HOSTILE, "memory_gib": 80, "memory_bandwidth_gb_per_s": 1000,
            "memory_efficiency": 0.8, "peak_tflops": {"fp32": 20, "bf16": 100},
            "matmul_efficiency": 0.7, "kernel_launch_us": 2}},
    "parallelism": {"tp": 2, "pp": 2, "zero_stage": 1},
    "training": {"global_batch_size": 16, "micro_batch_size": 1, "precision": "bf16", "optimizer": "adamw"},
    "execution": {"tensors": "meta"},
}
# The second of each pair is invalid: its message is a cell as well.
AXES = {"name": [HOSTILE, "+1+2", "-a", "@SUM(1)", "plain"], "training.micro_batch_size": [1, 3]}
TABLES_OF_A_RUN = {"", ".axes", ".links", ".memory", ".operations", ".schedule", ".stages", ".traffic"}


class CsvFormulaTest(unittest.TestCase):
    shardsim = ""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.scenario(SCENARIO)

    def scenario(self, scenario):
        (self.folder / "hostile.json").write_text(json.dumps(scenario), encoding="utf-8")

    def run_words(self, *words):
        done = subprocess.run([self.shardsim, *words], cwd=self.folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def harmless_cells(self, name):
        """All cells of a table."""
        with open(self.folder / name, encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, strict=True))
        self.assertGreater(len(rows), 1, name)
        self.assertEqual({len(row) for row in rows}, {len(rows[0])}, name)
        cells = [cell for row in rows for cell in row]
        for cell in cells:
            self.assertFalse(cell.startswith(STARTS), f"{name}: {cell!r}")
            if cell.startswith("-"):
                float(cell)  # Raises unless it is a number.
        return cells

    def test_the_tables_of_a_run(self):
        self.run_words("hostile.json", "-q", "--set", "output.csv=run.csv")
        self.assertEqual({path.name for path in self.folder.glob("run*.csv")},
                         {f"run{table}.csv" for table in TABLES_OF_A_RUN})
        for table in TABLES_OF_A_RUN:
            self.harmless_cells(f"run{table}.csv")

    def test_the_table_of_a_search(self):
        self.run_words("plan", "hostile.json", "--gpus", "8", "--gpu", "h100", "-q", "--time-limit", "0", "--csv", "plan.csv")
        self.harmless_cells("plan.csv")

    def test_the_table_of_a_sweep(self):
        self.scenario({**SCENARIO, "sweep": {"axes": AXES}})
        self.run_words("sweep", "hostile.json", "-q", "--out", "parts")
        self.run_words("merge", "parts", "--csv", "-o", "sweep.csv")
        cells = self.harmless_cells("sweep.csv")
        # The names are there all the same, as text; each is in a good row and in an invalid one.
        for name in AXES["name"]:
            self.assertEqual(cells.count(name if name == "plain" else "'" + name), 2, name)
        self.assertEqual((cells.count("ok"), cells.count("invalid")), (len(AXES["name"]), len(AXES["name"])))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    CsvFormulaTest.shardsim = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
