#!/usr/bin/env python3
"""The thirds of tests that run under sanitizers: each test is in one, tests of a program stay together."""

import pathlib
import sys
import unittest

CAMPAIGNS = pathlib.Path(__file__).resolve().parents[1] / "campaigns"
sys.path.insert(0, str(CAMPAIGNS))

import sanitizer_sample  # noqa: E402  (found by the line above)

SOURCES = {"command": 6, "strategies": 4, "backends": 2, "kernel": 1}
TESTS = [{"name": f"{program}{i}", "cmd": [f"/b/test_{program}", "[#a_test]" + ",[#b_test]" * (number - 1)]}
         for program, number in SOURCES.items() for i in range(3)]
TESTS += [{"name": name, "cmd": ["python3", name + ".py"]} for name in ("process", "cost")]


class SanitizerSampleTest(unittest.TestCase):
    def test_each_test_is_in_one_third(self):
        names = [name for third in sanitizer_sample.in_thirds(TESTS) for name in third]
        self.assertEqual(sorted(names), sorted(test["name"] for test in TESTS))

    def test_tests_of_a_program_stay_together(self):
        thirds = sanitizer_sample.in_thirds(TESTS)
        for program in ("command", "strategies", "backends", "kernel"):
            with self.subTest(program):
                self.assertEqual(sum(f"{program}0" in third for third in thirds), 1)
                self.assertTrue(any({f"{program}{i}" for i in range(3)} <= set(third) for third in thirds))

    def test_heavy_programs_are_apart(self):
        thirds = sanitizer_sample.in_thirds(TESTS)
        self.assertIn("command0", thirds[0])
        self.assertIn("strategies0", thirds[1])
        # 3 x 2 of backends, 3 of kernel and 2 scripts are no more than 3 x 4 of strategies.
        self.assertEqual(sorted(thirds[2])[:4], ["backends0", "backends1", "backends2", "cost"])

    def test_only_what_the_tests_need_is_built(self):
        targets = [{"id": "command", "filename": ["/b/sim/shardsim"]},
                   {"id": "kernel", "filename": ["/b/test_kernel"]},
                   {"id": "strategies", "filename": ["/b/test_strategies"]}]
        tests = [{"name": "kernel", "cmd": ["/b/test_kernel", "[#a_test]"], "depends": ["command"]}]
        self.assertEqual(sanitizer_sample.targets_of(tests, targets, "/b"), ["sim/shardsim", "test_kernel"])


if __name__ == "__main__":
    unittest.main()
