#!/usr/bin/env python3
"""The comparison of builds, tested on scripts that stand in for them: each disagreement is seen."""

import json
import pathlib
import sys
import tempfile
import unittest

CAMPAIGNS = pathlib.Path(__file__).resolve().parents[1] / "campaigns"
sys.path.insert(0, str(CAMPAIGNS))

import determinism_matrix as matrix  # noqa: E402  (found by the line above)

SCENARIO = pathlib.Path("verify-some.json")


def result(tensors, trace_hash="a1", step_ms=1.0):
    return json.dumps({"scenario": {"execution": {"tensors": tensors}},
                       "metrics": {"trace_hash": trace_hash, "step_ms": step_ms}})


class MatrixTest(unittest.TestCase):
    def problem(self, *bodies, arguments=()):
        """The verdict on builds A, B, ... whose command is a script of these lines."""
        with tempfile.TemporaryDirectory() as folder:
            commands = {}
            for name, body in zip("ABCD", bodies):
                script = pathlib.Path(folder) / name
                script.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
                script.chmod(0o700)
                commands[name] = script
            return matrix.problem_of(SCENARIO, commands, arguments)

    def prints(self, *results, arguments=()):
        return self.problem(*(f"echo '{text}'" for text in results), arguments=arguments)

    def test_equal_results_are_no_problem(self):
        for tensors in ("real", "meta"):
            self.assertIsNone(self.prints(*[result(tensors)] * 4))

    def test_plans_that_differ_are_seen_in_the_last_corner_too(self):
        same = result("meta")
        self.assertEqual(self.prints(same, same, same, result("meta", step_ms=1.1)),
                         "D and A print different plans")

    def test_last_bits_of_real_numbers_may_differ_but_not_the_hash(self):
        self.assertIsNone(self.prints(result("real"), result("real", step_ms=1.1)))
        self.assertEqual(self.prints(result("real"), result("real", trace_hash="b2")),
                         "B and A have different trace hashes")

    def test_exit_codes_are_compared(self):
        say = f"echo '{result('real')}'"
        self.assertEqual(self.problem(say, f"{say}; exit 1"), "B ends with 1, A with 0")
        self.assertEqual(self.problem(f"{say}; exit 4", f"{say}; exit 4"), "A ends with exit code 4")

    def test_a_build_that_differs_from_itself_is_seen(self):
        twice = f"[ -e \"$0.run\" ] && echo '{result('meta', step_ms=2.0)}' || echo '{result('meta')}'; : >\"$0.run\""
        self.assertEqual(self.problem(twice, twice), "A differs from itself on a second run")

    def test_a_run_as_plan_must_have_been_one(self):
        self.assertIsNone(self.prints(result("meta"), arguments=matrix.AS_PLAN))
        self.assertEqual(self.prints(result("real"), arguments=matrix.AS_PLAN), "A makes no plan of it")

    def test_the_command_is_told_that_it_is_a_plan(self):
        told = f"case \"$*\" in *execution.tensors=meta*) echo '{result('meta')}' ;; *) exit 2 ;; esac"
        self.assertIsNone(self.problem(told, arguments=matrix.AS_PLAN))

    def test_every_verify_scenario_is_compared_as_a_plan_too(self):
        self.assertEqual(matrix.runs_of(SCENARIO), ((), matrix.AS_PLAN))
        self.assertEqual(matrix.runs_of(pathlib.Path("quickstart.json")), ((),))


if __name__ == "__main__":
    unittest.main()
