#!/usr/bin/env python3
"""desk, all points: docs/what-users-met.md has each of the 14 points, and names tests that exist and carry its number.

usage: points_test.py
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/what-users-met.md"
NUM_POINTS = 14
TESTS_LINE = re.compile(r"^Tests?: .*(?:\n.+)*", re.MULTILINE)


def sections():
    """The text of each point, by its number."""
    parts = re.split(r"^## (\d+)\. .*$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return dict(zip(map(int, parts[::2]), parts[1::2]))


def carries(path, number):
    """Whether a test of this file has the number in its name or tag."""
    text = path.read_text(encoding="utf-8")
    return bool(re.search(rf"^TEST_CASE\((?:[^)]|\n)*?\[desk-{number}\]|^\s*def test_(?:desk_)?point_{number}_", text, re.MULTILINE))


class PointsTest(unittest.TestCase):
    def test_each_point_is_on_the_page_with_what_is_printed_now(self):
        points = sections()
        self.assertEqual(list(points), list(range(1, NUM_POINTS + 1)))
        for number, text in points.items():
            with self.subTest(point=number):
                self.assertRegex(text, r"<!-- output of: shardsim |```pycon")

    def test_each_point_names_tests_that_carry_its_number(self):
        for number, text in sections().items():
            with self.subTest(point=number):
                (line,) = TESTS_LINE.findall(text)
                names = re.findall(r"`([\w/]+\.(?:py|cpp))`", line)
                self.assertTrue(names)
                for name in names:
                    path = ROOT / name if "/" in name else ROOT / "tests/desk" / name
                    self.assertTrue(carries(path, number), name)


if __name__ == "__main__":
    unittest.main()
