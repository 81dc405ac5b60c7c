#!/usr/bin/env python3
"""Tests the comparison with an older command on scripts that stand in for two: values that
changed, went and came are told apart, and one that comes in a list moves no other."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/campaigns"))

import older_plans  # noqa: E402  (found by the line above)


class OlderPlansTest(unittest.TestCase):
    def compared(self, *results):
        """The exit code and the lines for one plan of two commands."""
        with tempfile.TemporaryDirectory() as folder:
            commands = []
            for name, result in zip("AB", results):
                script = pathlib.Path(folder) / name
                script.write_text(f"#!/bin/sh\necho '{json.dumps(result)}'\n", encoding="utf-8")
                script.chmod(0o700)
                commands.append(str(script))
            arguments = ["older_plans.py", commands[0], folder, commands[1]]
            told = io.StringIO()
            with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(told), \
                    mock.patch.object(older_plans, "cases", lambda *_: {"a plan": ["a.json"]}):
                return older_plans.main(), told.getvalue().splitlines()

    def test_a_value_that_came_is_no_difference(self):
        code, lines = self.compared({"a": 1, "list": ["x"]}, {"a": 1, "b": 2, "list": ["w", "x"]})
        self.assertEqual(code, 0)
        self.assertEqual(lines[-1], "1 plans: 1 have every value of before, 0 differ; 2 values are new")

    def test_a_value_that_changed_or_went_is_one(self):
        code, lines = self.compared({"a": 1, "b": 2}, {"a": 3})
        self.assertEqual(code, 1)
        self.assertIn("   1 /a: 1 is 3  (a plan)", lines)
        self.assertIn("   1 /b is gone  (a plan)", lines)

    def test_the_scenarios_of_a_tree_are_compared(self):
        with tempfile.TemporaryDirectory() as name, \
                mock.patch.object(older_plans.plan_comparison, "schema_of", lambda _: {}), \
                mock.patch.object(older_plans.plan_comparison, "plans", lambda *_: [{"name": "p"}]):
            found = older_plans.cases("old", ROOT, pathlib.Path(name), True)
        self.assertEqual(found["quickstart.json"], ["quickstart.json"])
        self.assertIn("execution.tensors=meta", found["verify-gpt-tp4.json"])
        self.assertEqual(found["verify-gpt-tp4.json, real"], ["verify-gpt-tp4.json"])
        self.assertEqual(found["p"], ["plan-0.json"])
        self.assertNotIn("scenario.schema.json", found)


if __name__ == "__main__":
    unittest.main()
