#!/usr/bin/env python3
"""The table of properties is held against the tests: what is missing on either side is said."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import page_of_tests
import properties


def page(state_of):
    return "\n".join(f"| {letter}{i} | It holds. | {state_of.get(f'{letter}{i}', 'not yet')} |"
                     for letter, last in properties.LAST.items() for i in range(1, last + 1))


class PropertiesTest(unittest.TestCase):
    def test_names_may_hold_several(self):
        self.assertEqual(properties.properties_of("P8, P9: calls differ"), ["P8", "P9"])
        self.assertEqual(properties.properties_of("P49: at P50 once more"), ["P49"])
        self.assertEqual(properties.properties_of("L3, P5: no data"), ["P5"])
        self.assertEqual(properties.properties_of("M8, P56: bugs"), ["M8", "P56"])
        self.assertEqual(properties.properties_of("a P2 inside"), [])

    def test_names_are_found_with_and_without_tags_and_over_lines(self):
        source = 'TEST_CASE("P1: one") {\nTEST_CASE("P2: tw"\n  "o", "[tag]") {\n"P3: none"'
        self.assertEqual(page_of_tests.test_names([source]), ["P1: one", "P2: two"])

    def test_both_sides_must_agree(self):
        names = ["P1, P2: both"]
        self.assertEqual(properties.problems(page({"P1": "tested", "P2": "tested"}), names), [])
        self.assertIn("P3: no test", properties.problems(
            page({"P1": "tested", "P2": "tested", "P3": "tested"}), names)[0])
        self.assertIn("P2: there is a test", properties.problems(page({"P1": "tested"}), names)[0])
        self.assertIn("there is no P99", properties.problems(page({}), ["P99: what"])[0])

    def test_every_row_is_there_once(self):
        for wrong in (("| P7 |", "| P8 |"), ("| M2 |", "| M3 |")):
            self.assertTrue(properties.problems(page({}).replace(*wrong), []))

    def test_the_script_reads_page_and_tests_and_fails_of_problems_or_no_tests(self):
        def outcome(source, problem):
            def problems(text, names):
                self.assertEqual((text, names), ("the page", ["a"] if source else []))
                return problem

            with tempfile.TemporaryDirectory() as root:
                folder = pathlib.Path(root)
                (folder / "page.md").write_text("the page", encoding="utf-8")
                (folder / "tests/deep").mkdir(parents=True)
                (folder / "tests/deep/a.cpp").write_text(source, encoding="utf-8")
                said = io.StringIO()
                with mock.patch.object(sys, "argv", ["some.py", root]), \
                        contextlib.redirect_stdout(said):
                    status = page_of_tests.check("", "page.md", "tests", problems)
            return status, said.getvalue()

        source = 'TEST_CASE("a") {}'
        self.assertEqual(outcome(source, []), (0, "some: 1 tests, 0 problems\n"))
        self.assertEqual(outcome(source, ["bad"]), (1, "page.md: bad\nsome: 1 tests, 1 problems\n"))
        self.assertEqual(outcome("", []), (1, "some: 0 tests, 0 problems\n"))


if __name__ == "__main__":
    unittest.main()
