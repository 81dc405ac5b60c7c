#!/usr/bin/env python3
"""Tests the short comparison of two builds on scripts that stand in for them. It names each
difference, and every choice of the schema has a plan."""

import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/campaigns"))

import plan_comparison as comparison  # noqa: E402  (found by the line above)

PLAN = {"name": "some plan"}


class PlanComparisonTest(unittest.TestCase):
    def problem(self, *bodies):
        with tempfile.TemporaryDirectory() as folder:
            commands = []
            for name, body in zip("AB", bodies):
                script = pathlib.Path(folder) / name
                script.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
                script.chmod(0o700)
                commands.append(script)
            problem = comparison.problem_of(PLAN, folder, commands)
            return problem and problem.replace(f"{folder}/", "")

    def prints(self, *results):
        return self.problem(*(f"echo '{json.dumps(result)}'" for result in results))

    def test_equal_plans_are_no_problem(self):
        self.assertIsNone(self.prints({"metrics": {"a": 1}}, {"metrics": {"a": 1}}))

    def test_a_plan_that_does_not_fit_is_compared(self):
        plan, other = ("echo '{\"metrics\": {\"a\": %d}}'; exit 3" % number for number in (1, 2))
        self.assertIsNone(self.problem(plan, plan))
        self.assertEqual(self.problem(plan, other), "the plans differ: /metrics/a is 1 and 2")

    def test_equal_refusals_are_no_equal_plans(self):
        for printed in ("[{\"code\": \"E0301\"}]", "{\"metrics\": {}}", "{}", "", "no JSON"):
            with self.subTest(printed=printed):
                refusal = f"echo '{printed}'; exit 3"
                self.assertEqual(self.problem(refusal, refusal), "A prints no plan")

    def test_the_first_difference_is_named(self):
        self.assertEqual(self.prints({"metrics": {"a": [1, 2.5], "b": 3}}, {"metrics": {"a": [1, 2.25], "b": 4}}),
                         "the plans differ: /metrics/a/1 is 2.5 and 2.25")

    def test_bytes_count_and_not_only_values(self):
        self.assertEqual(self.problem("echo '{\"metrics\": [1]}'", "echo '{\"metrics\":  [1]}'"), "the plans differ: in their form alone")

    def test_a_refusal_and_another_exit_code_are_problems(self):
        self.assertEqual(self.problem("echo 1; exit 2", "echo 1; exit 2"), "A ends with exit code 2")
        self.assertEqual(self.problem("echo 1", "echo 1; exit 3"), "B ends with 3, A with 0")

    def test_every_choice_has_a_plan(self):
        schema = json.loads((ROOT / "scenarios/scenario.schema.json").read_text(encoding="utf-8"))
        software = comparison.choices(schema, "system", "software")
        schedules = comparison.choices(schema, "parallelism", "schedule")
        self.assertIn("none", software)
        self.assertIn("1f1b", schedules)
        planned = comparison.plans(schema, ["dgx-h100"])
        self.assertEqual({plan["system"]["software"] for plan in planned}, set(software))
        self.assertEqual({plan["parallelism"].get("schedule") for plan in planned} - {None},
                         set(schedules) - comparison.NOT_PLANNED)


if __name__ == "__main__":
    unittest.main()
