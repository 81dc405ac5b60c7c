#!/usr/bin/env python3
"""The counting of test results, tested: a failure of any kind must never be counted as a pass."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

CAMPAIGNS = pathlib.Path(__file__).resolve().parents[1] / "campaigns"
sys.path.insert(0, str(CAMPAIGNS))

import count_results  # noqa: E402  (found by the line above)


def counted(result, stdout="", stderr=""):
    return count_results.count_test({"result": result, "stdout": stdout, "stderr": stderr})


class CountResultsTest(unittest.TestCase):
    def test_catch_cases_are_counted(self):
        self.assertEqual(counted("OK", "All tests passed (3 assertions in 2 test cases)\n"), (2, 0, 0))
        self.assertEqual(counted("OK", "All tests passed (1 assertion in 1 test case)\n"), (1, 0, 0))

    def test_failed_catch_cases_are_counted(self):
        self.assertEqual(
            counted("FAIL", "test cases: 5 | 3 passed | 2 failed\nassertions: 9 | 6 passed | 3 failed\n"),
            (3, 2, 0))
        self.assertEqual(counted("FAIL", "test cases: 1 | 1 failed\n"), (0, 1, 0))

    def test_cases_that_failed_as_expected_have_passed(self):
        self.assertEqual(counted("OK", "test cases: 4 | 3 passed | 1 failed as expected\n"), (4, 0, 0))

    def test_python_tests_are_counted(self):
        self.assertEqual(counted("OK", stderr="Ran 12 tests in 0.1s\n\nOK\n"), (12, 0, 0))
        self.assertEqual(
            counted("FAIL", stderr="Ran 12 tests in 0.1s\n\nFAILED (failures=2, errors=1)\n"), (9, 3, 0))

    def test_skipped_python_tests_have_not_passed(self):
        self.assertEqual(counted("OK", stderr="Ran 12 tests in 0.1s\n\nOK (skipped=3)\n"), (9, 0, 3))
        self.assertEqual(counted("OK", stderr="Ran 2 tests in 0.1s\n\nOK (skipped=2)\n"), (0, 0, 2))
        self.assertEqual(
            counted("FAIL", stderr="Ran 12 tests in 0.1s\n\nFAILED (failures=1, skipped=3)\n"), (8, 1, 3))

    def test_tests_of_pytest_are_counted(self):
        self.assertEqual(counted("OK", "....   [100%]\n12 passed in 0.10s\n"), (12, 0, 0))
        self.assertEqual(counted("OK", "12 passed, 2 skipped, 1 warning in 75.20s (0:01:15)\n"), (12, 0, 2))
        self.assertEqual(counted("FAIL", "FAILED a_test.py::b\n1 failed, 11 passed, 2 errors in 3.01s\n"), (11, 3, 0))
        self.assertEqual(counted("FAIL", "no tests ran in 0.01s\n"), (0, 1, 0))

    def test_anything_else_counts_as_one(self):
        self.assertEqual(counted("OK", "whatever\n"), (1, 0, 0))
        self.assertEqual(counted("FAIL", "whatever\n"), (0, 1, 0))

    def test_a_crash_after_a_good_summary_is_a_failure(self):
        for result in ("FAIL", "ERROR", "TIMEOUT", "INTERRUPT", "UNEXPECTEDPASS"):
            self.assertEqual(counted(result, "All tests passed (3 assertions in 2 test cases)\n"),
                             (2, 1, 0))

    def test_a_skipped_test_has_neither_passed_nor_failed(self):
        self.assertEqual(counted("SKIP"), (0, 0, 1))

    def test_skipped_tests_are_in_the_last_line_if_there_are_any(self):
        self.assertEqual(count_results.line_of([5, 0, 0]), "5 passed, 0 failed")
        self.assertEqual(count_results.line_of([5, 1, 2]), "5 passed, 1 failed, 2 skipped")


    def test_figures_of_passing_tests_are_shown(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
            log.write(json.dumps({"name": "mpi", "result": "OK",
                                  "stdout": "noise\nfigures: mpi: 3 of 3\n"}) + "\n")
            log.flush()
            done = subprocess.run([sys.executable, "-B", CAMPAIGNS / "count_results.py", log.name],
                                  stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(done.stdout, "figures: mpi: 3 of 3\n1 passed, 0 failed\n")


class CountStepTest(unittest.TestCase):
    def sum_of(self, *steps):
        script = [f". {CAMPAIGNS}/count.sh", *(f"count_step {step}" for step in steps), "count_close"]
        done = subprocess.run(["bash", "-uo", "pipefail", "-c", "\n".join(script)], check=False,
                              stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        return done.stdout.splitlines()[-1], done.returncode

    def test_steps_are_added_up(self):
        self.assertEqual(self.sum_of("echo 3 passed, 0 failed", "echo 4 passed, 0 failed"),
                         ("7 passed, 0 failed", 0))

    def test_skipped_tests_are_added_up_and_fail_nothing(self):
        self.assertEqual(self.sum_of("echo 3 passed, 0 failed, 2 skipped", "echo 4 passed, 0 failed",
                                     "echo 1 passed, 0 failed, 1 skipped"),
                         ("8 passed, 0 failed, 3 skipped", 0))
        self.assertEqual(self.sum_of("echo 3 passed, 1 failed, 2 skipped"),
                         ("3 passed, 1 failed, 2 skipped", 1))

    def test_a_failure_in_any_step_fails_the_sum(self):
        self.assertEqual(self.sum_of("echo 3 passed, 2 failed", "echo 4 passed, 0 failed"),
                         ("7 passed, 2 failed", 1))

    def test_a_step_without_counts_is_a_failure(self):
        self.assertEqual(self.sum_of("echo 3 passed, 0 failed", "true"), ("3 passed, 1 failed", 1))

    def test_a_step_that_fails_with_no_failure_counted_is_a_failure(self):
        self.assertEqual(self.sum_of("eval 'echo 3 passed, 0 failed; false'"), ("3 passed, 1 failed", 1))

    def test_a_failure_outside_of_the_steps_is_added_and_explained(self):
        script = f". {CAMPAIGNS}/count.sh; count_failure 'no fibers were looked at'; count_close"
        done = subprocess.run(["bash", "-uo", "pipefail", "-c", script], check=False,
                              stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        lines = done.stdout.splitlines()
        self.assertEqual((lines[0], lines[-1], len(lines), done.returncode),
                         ("no fibers were looked at", "0 passed, 1 failed", 3, 1))

    def test_the_line_before_the_sum_says_how_long_it_took(self):
        busy = f"{sys.executable} -c 'import time\nwhile time.process_time() < 1.6: pass'"
        idle = "sleep 1.6"
        script = f". {CAMPAIGNS}/count.sh; count_step sh -c \"echo 1 passed, 0 failed; $STEP\"; count_close"
        for step, processors in ((idle, (0, 1)), (busy, (2, 3))):
            for language in ("C", "de_DE.UTF-8"):  # With a comma in seconds, where it is installed.
                done = subprocess.run(["bash", "-uo", "pipefail", "-c", script], check=True, text=True,
                                      env={**os.environ, "STEP": step, "LC_ALL": language},
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                before, last = done.stdout.splitlines()[-2:]
                self.assertEqual(last, "1 passed, 0 failed")
                took = re.fullmatch(r"took (\d+) s, and (\d+) s of processors", before)
                self.assertIsNotNone(took, before)
                self.assertGreaterEqual(int(took.group(1)), 1)
                self.assertIn(int(took.group(2)), processors)

    def test_each_step_has_a_line_with_its_time_and_its_failures(self):
        busy = f"{sys.executable} -c 'import time; [0 for _ in iter(lambda: time.process_time() < 1.6, False)]'"
        script = (f". {CAMPAIGNS}/count.sh; count_step sh -c \"echo 1 passed, 0 failed; $STEP\"; "
                  "count_step echo 3 passed, 2 failed; count_step true; count_close")
        done = subprocess.run(["bash", "-uo", "pipefail", "-c", script], check=False, text=True,
                              env={**os.environ, "STEP": busy}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[-6], "  wall s  processor  failed  step")
        table = [line.split(None, 3) for line in lines[-6:-2]]
        self.assertGreaterEqual(int(table[1][0]), 1)
        self.assertIn(int(table[1][1]), (1, 2, 3))
        self.assertEqual(table[1][2], "0")
        self.assertEqual(table[2][1:], ["0", "2", "echo 3 passed, 2 failed"])
        self.assertEqual(table[3][1:], ["0", "1", "true"])

    def test_a_closed_stdin_does_no_harm(self):
        self.assertEqual(self.sum_of("bash -c 'echo 3 passed, 0 failed' <&-"), ("3 passed, 0 failed", 0))

    def test_only_the_last_counts_of_a_step_are_taken(self):
        self.assertEqual(self.sum_of(r"printf '1 passed, 0 failed\n2 passed, 0 failed\n'"),
                         ("2 passed, 0 failed", 0))


# Stand-ins by name: no package is installed, all that is built works, each run has one good test.
PROGRAMS = {
    "dpkg-query": "",
    "ninja": "",
    "meson": """
case $1 in
  setup) mkdir -p "$2"; : >"$2/build.ninja" ;;
  introspect) echo '[]' ;;
  test) mkdir -p "$3/meson-logs"; echo '{"result": "OK"}' >"$3/meson-logs/testlog.json" ;;
esac
""",
}


class SanitizeWithoutBoostTest(unittest.TestCase):
    def last_line(self, programs=None, **environment):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            shutil.copytree(CAMPAIGNS, root / "tests/campaigns")
            shutil.copy(CAMPAIGNS.parent / "sample.py", root / "tests")
            (root / "bin").mkdir()
            for name, body in (programs or PROGRAMS).items():
                (root / "bin" / name).write_text(f"#!/bin/sh\n{body}", encoding="utf-8")
                (root / "bin" / name).chmod(0o700)
            path = f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"
            done = subprocess.run(["bash", str(root / "tests/campaigns/sanitize.sh")], check=False,
                                  env={"PATH": path, **environment}, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertIn("FALLBACK", done.stderr)
        return done.stdout.splitlines()[-1], done.returncode

    def test_fibers_that_no_sanitizer_saw_are_a_failure(self):
        self.assertEqual(self.last_line(), ("2 passed, 1 failed", 1))

    def test_a_sample_that_cannot_be_drawn_is_a_failure(self):
        silent = PROGRAMS | {"meson": PROGRAMS["meson"].replace("introspect", "another_verb")}
        accepted = {"SHARDSIM_SANITIZE_WITHOUT_FIBERS": "1"}
        self.assertEqual(self.last_line(silent, **accepted), ("1 passed, 1 failed", 1))

    def test_that_can_be_accepted(self):
        self.assertEqual(self.last_line(SHARDSIM_SANITIZE_WITHOUT_FIBERS="1"), ("2 passed, 0 failed", 0))


if __name__ == "__main__":
    unittest.main()
