#!/usr/bin/env python3
"""The thirds of tests that run under sanitizers: a test stays in its own, whatever else there is."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/campaigns"))

import sanitizer_sample  # noqa: E402  (found by the line above)


class SanitizerSampleTest(unittest.TestCase):
    def test_a_program_is_in_the_third_that_its_suite_says(self):
        for third in range(3):
            test = {"name": "kernel", "suite": ["shardsim:unit", f"shardsim:third_{third}"]}
            self.assertEqual(sanitizer_sample.third_of(test), third)

    def test_scripts_are_dealt_out_by_their_names(self):
        thirds = [sanitizer_sample.third_of({"name": f"script {i}", "suite": ["shardsim:unit"]})
                  for i in range(300)]
        self.assertEqual(sorted(set(thirds)), [0, 1, 2])
        self.assertGreater(min(map(thirds.count, range(3))), 60)

    def test_each_program_has_a_third(self):
        text = (ROOT / "tests/meson.build").read_text(encoding="utf-8")
        binaries = text.partition("test_binaries = {")[2].partition("\n}")[0].strip().splitlines()
        self.assertGreater(len(binaries), 10)
        thirds = [line.partition("'third': ")[2][:1] for line in binaries]
        self.assertEqual(sorted(set(thirds)), ["0", "1", "2"])

    def test_only_what_the_tests_need_is_built(self):
        targets = [{"id": "command", "filename": ["/b/sim/shardsim"]},
                   {"id": "kernel", "filename": ["/b/test_kernel"]},
                   {"id": "strategies", "filename": ["/b/test_strategies"]}]
        tests = [{"name": "kernel", "cmd": ["/b/test_kernel", "[#a_test]"], "depends": ["command"]}]
        self.assertEqual(sanitizer_sample.targets_of(tests, targets, "/b"), ["sim/shardsim", "test_kernel"])


if __name__ == "__main__":
    unittest.main()
