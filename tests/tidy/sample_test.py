#!/usr/bin/env python3
"""tests/sample.py: the part of a case, and the choice of a part."""

import os
import pathlib
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import sample  # noqa: E402  pylint: disable=wrong-import-position

NAMES = [f"verify-{i}" for i in range(300)]


def chosen(**environment):
    with unittest.mock.patch.dict(os.environ, environment):
        return {name for name in NAMES if sample.in_sample(name, 3)}


class SampleTest(unittest.TestCase):
    def setUp(self):
        for name in ("SHARDSIM_SAMPLE", "SHARDSIM_LONG"):
            os.environ.pop(name, None)

    def test_a_case_is_in_the_same_part_for_tests_in_cpp_and_in_python(self):
        # The same figures stand in tests/property/sample_test.cpp.
        self.assertEqual([sample.part_of(name, 1000) for name in ("verify-gpt-ddp", "dp 3, tp 1", "")], [577, 590, 257])

    def test_samples_in_a_row_take_each_case_once(self):
        parts = [chosen(SHARDSIM_SAMPLE=str(number)) for number in (7, 8, 9)]
        self.assertEqual(sorted(name for part in parts for name in part), sorted(NAMES))
        self.assertTrue(all(parts))

    def test_a_long_run_takes_all(self):
        self.assertEqual(chosen(SHARDSIM_LONG="1", SHARDSIM_SAMPLE="1"), set(NAMES))

    def test_without_a_choice_it_is_the_first_part(self):
        self.assertEqual(chosen(), chosen(SHARDSIM_SAMPLE="0"))
        self.assertEqual(chosen(SHARDSIM_SAMPLE=""), chosen())


if __name__ == "__main__":
    unittest.main()
