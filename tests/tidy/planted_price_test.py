#!/usr/bin/env python3
"""The campaign that plants a price, tested without building: where it plants, and which ends of
`./dev plans` it takes for a pass."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/campaigns"))

import planted_price as campaign  # noqa: E402  (found by the line above)

DIFFERS = "FAIL system a: the plans differ: /metrics/step_time_s is 1.5 and 2.5\n"


class PlantedPriceTest(unittest.TestCase):
    def test_it_plants_in_the_price_and_nowhere_else(self):
        text = (ROOT / campaign.SOURCE).read_text(encoding="utf-8")
        planted = campaign.planted(text)
        self.assertEqual(planted.replace(campaign.PLANTED, "", 1), text)
        before = planted[:planted.index(campaign.PLANTED)]
        self.assertGreater(before.index("Time Device::price("), 0)
        self.assertNotIn("Time Device::issue_price(", before)

    def test_without_the_place_nothing_is_planted(self):
        self.assertIsNone(campaign.planted("Time Device::price() {\n  return other;\n}\n"))
        self.assertIsNone(campaign.planted("int other() {\n  return Time::from_seconds(1);\n}\n"))

    def test_only_a_counted_failure_that_names_a_metric_is_wanted(self):
        counts = "1 passed, 2 failed\n"
        self.assertIsNone(campaign.problem_of(1, DIFFERS + counts))
        self.assertEqual(campaign.problem_of(0, DIFFERS + counts), "./dev plans passes")
        self.assertEqual(campaign.problem_of(70, "the build failed\n"), "./dev plans ends without counts")
        self.assertEqual(campaign.problem_of(1, DIFFERS + "3 passed, 0 failed\n"), "./dev plans counts no failure")
        self.assertEqual(campaign.problem_of(1, "FAIL a: A ends with exit code 4\n" + counts),
                         "./dev plans names no metric that differs")


if __name__ == "__main__":
    unittest.main()
