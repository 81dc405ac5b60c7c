#!/usr/bin/env python3
"""tests/hardware/run.sh without hardware: it skips with the reason, sees what fails, and answers every
line of its list.

usage: hardware_check_test.py SHARDSIM
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import hardware_check
import hardware_report
import portable_needs

HERE = pathlib.Path(__file__).resolve().parent


class HardwareCheckTest(unittest.TestCase):
    shardsim = ""

    def run_list(self, binary, out, fails="", **more):
        environment = {**os.environ, "STAND_IN_FAILS": fails, "SHARDSIM_SECONDS_TO_TRAINING": "0.5", **more}
        done = subprocess.run([HERE / "run.sh", binary, out], capture_output=True, text=True, timeout=200,
                              env=environment, check=False)
        reports = list(pathlib.Path(out).glob("*.md"))
        return done.returncode, done.stderr, reports[0].read_text(encoding="utf-8") if reports else ""

    def answers(self, report):
        rows = [line.split("|") for line in report.splitlines() if line.startswith("|")]
        return {row[1].strip(): row[3].strip() for row in rows if row[1].strip() in hardware_report.LINES and row[2].strip()
                == hardware_report.LINES[row[1].strip()]}

    def test_without_a_gpu_it_skips_with_the_reason(self):
        with tempfile.TemporaryDirectory() as out:
            code, err, report = self.run_list(self.shardsim, out, CUDA_VISIBLE_DEVICES="")
        if code == 0:
            self.skipTest("there is a GPU here")
        self.assertEqual((code, report), (77, ""))
        self.assertRegex(err, r"skipped: (CUDA runtime|NVIDIA driver|GPUs|NCCL): \w+")

    def test_each_thing_that_is_missing_is_a_skip(self):
        for row in hardware_check.NEEDED:
            with tempfile.TemporaryDirectory() as out:
                code, err, _ = self.run_list(HERE / "stand_in.py", out, row)
            self.assertEqual((code, err), (77, f"skipped: {row}: {row} seen\n"))

    def test_every_line_is_answered(self):
        with tempfile.TemporaryDirectory() as out:
            code, err, report = self.run_list(HERE / "stand_in.py", out)
        self.assertEqual(code, 0, err + report)
        self.assertEqual(self.answers(report), {line: "ok" for line in hardware_report.LINES})
        self.assertIn("rank 1 named, 0 processes left", report)

    def test_what_fails_is_named_on_its_line(self):
        # A list takes a hundred starts of the program, so several lines fail at once.
        rounds = ({"values": ["3", "4"], "scenario": ["5", "scenarios"], "name": ["6"], "logs": ["7"]},
                  {"wire": ["3"], "kill": ["6"]})
        for cases in rounds:
            with self.subTest(cases), tempfile.TemporaryDirectory() as out:
                code, err, report = self.run_list(HERE / "stand_in.py", out, ",".join(cases))
                self.assertEqual(code, 1, err)
                self.assertEqual(sorted(line for line, answer in self.answers(report).items() if answer == "FAILED"),
                                 sorted(line for lines in cases.values() for line in lines))

    def test_without_time_the_rest_is_skipped_and_said_so(self):
        with tempfile.TemporaryDirectory() as out:
            runner = hardware_check.Runner(HERE / "stand_in.py", out)
            runner.end = runner.clock() + 1
            hardware_check.check_splits(runner)
            hardware_check.check_killed_rank(runner)
        self.assertEqual({check["status"] for check in runner.checks}, {"skipped"})
        self.assertEqual(hardware_report.answer_of(runner.checks)[0], "skipped")
        self.assertIn("because the time", hardware_report.answer_of(runner.checks)[1])

    def test_the_report_of_a_recorded_run(self):
        record = json.loads((HERE / "recorded_run.json").read_text(encoding="utf-8"))
        approved = HERE / "recorded_run.md"
        if os.environ.get("UPDATE_GOLDEN"):
            approved.write_text(hardware_report.render(record), encoding="utf-8")
        self.assertEqual(hardware_report.render(record), approved.read_text(encoding="utf-8"))

    def test_the_judges_read_what_the_program_prints(self):
        if shutil.which("mpirun") is None:
            self.skipTest("no mpirun")
        words = ["collective", "all_reduce", "-b", "1K", "-e", "1K", "-n", "1", "-q", "--json", "--backend=mpi"]
        done = subprocess.run([self.shardsim, *words], capture_output=True, text=True, timeout=100, check=False)
        good, seen = hardware_check.judge_collective(True)(done.returncode, done.stdout, done.stderr)
        self.assertTrue(good, seen)
        words = [str(hardware_check.SCENARIOS / "verify-mlp-ddp.json"), "--json", "-q"]
        done = subprocess.run([self.shardsim, *words], capture_output=True, text=True, timeout=100, check=False)
        self.assertTrue(hardware_check.judge_scenario(done.returncode, done.stdout, done.stderr)[0])
        for ranks in (2, 4):  # Layouts that the list asks for.
            changed = ["--set", "system.nodes=1", "--set", f"system.gpus_per_node={ranks}", "--set",
                       f"training.num_microbatches={16 // ranks}"]
            done = subprocess.run([self.shardsim, *words, *changed], capture_output=True, text=True, timeout=100,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stdout[:2000])

    def test_a_binary_that_needs_more_is_not_portable(self):
        headers = "  NEEDED               libc.so.6\n  NEEDED               libfmt.so.9\n"
        symbols = ("0000 DF *UND*\t0000 (GLIBC_2.36) arc4random\n0000 DF *UND*\t0000 (GLIBC_2.34) dlopen\n"
                   "0395 g DO .data\t0028 Base ncclProfiler_v4\n")
        needs = portable_needs.needs_of(headers, symbols)
        self.assertEqual(portable_needs.problems(*needs), ["needs libfmt.so.9", "needs glibc 2.36 for arc4random",
                                                           "does not export ncclProfiler_v5"])
        symbols = symbols.replace("2.36", "2.35").replace("v4", "v4\n0395 g DO .data\t0028 Base ncclProfiler_v5")
        self.assertEqual(portable_needs.problems(*portable_needs.needs_of("  NEEDED   libc.so.6\n", symbols)), [])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    HardwareCheckTest.shardsim = sys.argv.pop(1)
    unittest.main()
