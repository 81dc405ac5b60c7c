#!/usr/bin/env python3
"""Tests how the results of two builds are compared: words may differ in three places, numbers nowhere."""

import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/campaigns"))

import same_results  # noqa: E402  (found by the line above)

RESULT = {"metrics": {"mfu": 0.25}, "assumptions": ["one", "two"], "checks": [{"name": "a", "detail": "fine"}]}


def changed(**parts):
    return json.dumps({**RESULT, **parts})


class SameResultsTest(unittest.TestCase):
    def is_same(self, text):
        return same_results.comparable(text) == same_results.comparable(json.dumps(RESULT))

    def test_words_of_assumptions_and_details_may_change(self):
        self.assertTrue(self.is_same(changed()))
        self.assertTrue(self.is_same(changed(assumptions=["1", "2"])))
        self.assertTrue(self.is_same(changed(checks=[{"name": "a", "detail": "holds"}])))

    def test_all_else_must_be_the_same(self):
        for text in (changed(assumptions=["one"]), changed(checks=[{"name": "a", "detail": "fine by 2"}]), changed(metrics={"mfu": 0.250000001}), changed(metrics={"mfu": "0.25"}),
                     changed(checks=[{"name": "b", "detail": "fine"}]), changed(checks=[]),
                     json.dumps(RESULT).replace("0.25", "0.250"), json.dumps(dict(reversed(RESULT.items())))):
            with self.subTest(text=text):
                self.assertFalse(self.is_same(text))

    def test_exit_codes_and_outputs_that_are_no_json_are_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            outputs = []
            for number, body in enumerate(("echo 1; exit 2", "echo 1; exit 3", "echo no >&2", "echo yes >&2")):
                script = pathlib.Path(folder) / str(number)
                script.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
                script.chmod(0o700)
                outputs.append(same_results.output(str(script), []))
        self.assertEqual(len(set(outputs)), 4)

    def test_every_scenario_and_every_space_is_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            cases = same_results.cases(pathlib.Path(folder))
        spaces = json.loads((ROOT / "tests/search/small_spaces.json").read_text(encoding="utf-8"))
        scenarios = set((ROOT / "scenarios").glob("*.json")) - set((ROOT / "scenarios").glob("*.schema.json"))
        self.assertGreater(len(scenarios), 50)
        self.assertEqual(len(cases), len(spaces) + len(scenarios))
        self.assertEqual({words[0] for words in cases.values()}, {"run", "plan"})


if __name__ == "__main__":
    unittest.main()
