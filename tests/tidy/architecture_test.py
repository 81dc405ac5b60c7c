#!/usr/bin/env python3
"""Tests of architecture.py: what it draws and counts, and that it notices a tree that has changed."""

import contextlib
import io
import pathlib
import shutil
import sys
import tempfile
import unittest

import architecture

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Drawn(unittest.TestCase):
    NEEDS = {"top": {"middle", "base"}, "middle": {"base"}, "side": {"base"}, "base": set()}

    def test_a_room_lies_above_all_that_it_includes(self):
        self.assertEqual(architecture.floors_of(self.NEEDS), {"base": 0, "middle": 1, "side": 1, "top": 2})

    def test_an_arrow_that_others_imply_is_left_out(self):
        self.assertEqual(architecture.direct(self.NEEDS), [("middle", "base"), ("side", "base"), ("top", "middle")])

    def test_every_room_has_a_box_and_every_arrow_a_line(self):
        text = architecture.picture(self.NEEDS)
        self.assertEqual(text.count("</text>"), 4)
        self.assertEqual(text.count('<path d="M') - 1, 3)  # One is the arrow's head.


class Stale(unittest.TestCase):
    def status_after(self, change):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in architecture.rules.PRODUCT + ("docs",):
                shutil.copytree(ROOT / name, root / name)
            change(root)
            sys.argv = ["architecture.py", str(root)]
            with contextlib.redirect_stdout(io.StringIO()):
                return architecture.main()

    def test_the_tree_as_it_is_passes(self):
        self.assertEqual(self.status_after(lambda root: None), 0)

    def test_a_new_include_between_rooms_fails(self):
        def change(root):
            (root / "sim/harness/planted.cpp").write_text('#include "scenarios/load.hpp"\n', encoding="utf-8")

        self.assertEqual(self.status_after(change), 1)

    def test_a_name_in_one_more_file_fails(self):
        def change(root):
            (root / "sim/run/planted.cpp").write_text('bool is = kind == "dualpipe_v";\n', encoding="utf-8")

        self.assertEqual(self.status_after(change), 1)


if __name__ == "__main__":
    unittest.main()
