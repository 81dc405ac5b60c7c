#!/usr/bin/env python3
"""tests/hardware/measure_products.py without a GPU: the products of a scenario, measured by a stand-in for the CUDA
runtime and cuBLASLt that ends at any wrong argument, and read by `shardsim calibrate kernels`.

usage: measure_products_test.py SHARDSIM STAND_IN"""

import csv
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest

import measure_products

HERE = pathlib.Path(__file__).resolve().parent
SCENARIOS = HERE.parents[1] / "scenarios"


class MeasureProductsTest(unittest.TestCase):
    shardsim = ""
    library = ""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def measured(self, scenario, *flags, fails="", library=None):
        library = library or self.library
        done = subprocess.run([sys.executable, "-B", HERE / "measure_products.py", self.shardsim, scenario, "--cublaslt",
                               library, "--cudart", library, *flags], capture_output=True, text=True, check=False,
                              env={"STAND_IN_FAILS": fails, "PATH": "/usr/bin:/bin"})
        return done.returncode, done.stdout, done.stderr

    def rows(self, scenario, *flags):
        code, out, err = self.measured(scenario, *flags)
        self.assertEqual(code, 0, err)
        return list(csv.DictReader(io.StringIO(out)))

    def test_each_product_of_a_plan_is_measured_once(self):
        rows = self.rows(SCENARIOS / "quickstart.json")
        sizes = [tuple(row[name] for name in measure_products.COLUMNS[:-1]) for row in rows]
        self.assertEqual(len(sizes), len(set(sizes)))
        # Of Llama 3 8B, for one sequence of 8192 tokens: its keys, and the gradients of their weights and input.
        self.assertIn(("matmul", "bf16", "8192", "1024", "4096", "1", "bf16", ""), sizes)
        self.assertIn(("matmul", "bf16", "1024", "4096", "8192", "1", "bf16", "yes"), sizes)
        self.assertIn(("matmul", "bf16", "8192", "4096", "1024", "1", "bf16", "yes"), sizes)
        self.assertEqual(len(sizes), 13)
        for row in rows:
            us = 2 * int(row["m"]) * int(row["n"]) * int(row["k"]) * int(row["batch"]) / 1e6
            us *= 2 if row["accumulate"] else 1
            self.assertAlmostEqual(float(row["microseconds"]) / us, 1, delta=1e-3)

    def test_the_table_is_one_that_calibrate_reads(self):
        table = pathlib.Path(self.folder.name) / "products.csv"
        code, _, err = self.measured(SCENARIOS / "quickstart.json", table)
        self.assertEqual(code, 0, err)
        done = subprocess.run([self.shardsim, "calibrate", "kernels", table, "--system", "dgx-h100"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("matmul, bf16", done.stdout)

    def test_results_are_told_by_the_bytes_beside_the_operands(self):
        def row(each, dtype="bf16", family="weight_gradient"):
            operands = 2 * (64 * 16 + 16 * 32) * (2 if dtype == "bf16" else 1)
            return measure_products.row_of(dict(family=family, dtype=dtype, shape=[64, 32, 16, 2],
                                                bytes=operands + 2 * 64 * 32 * each))
        self.assertEqual([(row(each)["out_dtype"], row(each)["accumulate"]) for each in (2, 4, 8)],
                         [("bf16", False), ("bf16", True), ("fp32", True)])
        self.assertEqual(row(2, "fp8_e4m3")["dtype"], "fp8")
        self.assertEqual(row(6), "64 x 32 x 16 x 2 with 6 bytes of a result: not measured here")
        self.assertIsNone(row(2, family="norm"))

    def test_precisions_without_a_call_are_told(self):
        code, out, err = self.measured(SCENARIOS / "quickstart.json", "--set", "training.precision=fp8", "--set",
                                       "training.fp8_recipe=blockwise")
        self.assertEqual(code, 0, err)
        self.assertIn("note: fp8_e4m3 with scales of blocks: not measured here", err)
        self.assertNotIn("fp8", out)
        rows = self.rows(SCENARIOS / "quickstart.json", "--set", "training.precision=fp8")
        self.assertIn("fp8", [row["dtype"] for row in rows])

    def test_what_is_missing_is_a_skip(self):
        code, out, err = self.measured(SCENARIOS / "quickstart.json", fails="devices")
        self.assertEqual((code, out, err), (77, "", "skipped: GPUs: cudaGetDeviceCount says 0, 0 of them\n"))
        code, out, err = self.measured(SCENARIOS / "quickstart.json", library="/no/such.so")
        self.assertEqual((code, out, err), (77, "", "skipped: CUDA runtime: none of /no/such.so can be loaded\n"))

    def test_a_call_that_fails_is_named(self):
        for name in ("cublasLtMatmul", "cudaMalloc", "cublasLtCreate", "cublasLtMatrixLayoutCreate"):
            code, out, err = self.measured(SCENARIOS / "quickstart.json", fails=name)
            self.assertEqual((code, out), (1, ""), err)
            self.assertIn(f"error: {name} says ", err)
        code, _, err = self.measured(SCENARIOS / "quickstart.json", fails="cublasLtMatmulAlgoGetHeuristic")
        self.assertEqual((code, err.strip().splitlines()[-1]),
                         (1, "error: cublasLtMatmulAlgoGetHeuristic finds no algorithm"))
        code, _, err = self.measured("no.json")
        self.assertEqual(code, 1)
        self.assertIn("error: shardsim export program: error[E0001]", err)


if __name__ == "__main__":
    MeasureProductsTest.shardsim = str(pathlib.Path(sys.argv[1]).resolve())
    MeasureProductsTest.library = str(pathlib.Path(sys.argv[2]).resolve())
    unittest.main(argv=sys.argv[:1])
