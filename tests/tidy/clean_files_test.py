#!/usr/bin/env python3
"""tests/campaigns/clean_files.py: what a linter found clean is read again when anything changed that
its findings can depend on, and only then."""

import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "campaigns"))

import clean_files  # noqa: E402  (its folder is known only now)

COMPILER = os.environ.get("CXX", "c++")


class CleanFilesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("a.hpp", "struct A {};\n")
        self.write("a.cpp", '#include "a.hpp"\n')

    def write(self, name, text):
        (self.root / name).write_text(text, encoding="utf-8")
        clean_files.content_hash.cache_clear()

    def key(self, settings="checks", arguments=""):
        entry = {"directory": str(self.root), "file": "a.cpp",
                 "command": f"{COMPILER} {arguments} -MD -MQ a.o -MF a.o.d -o a.o -c a.cpp"}
        return clean_files.CleanFiles(settings, self.root / "kept").key(entry)

    def test_it_stays_the_same_while_nothing_changes(self):
        self.assertEqual(self.key(), self.key())
        self.assertFalse((self.root / "a.o").exists())
        self.assertFalse((self.root / "a.o.d").exists())

    def test_a_header_the_source_the_settings_and_the_command_count(self):
        keys = [self.key(), self.key(settings="other checks"), self.key(arguments="-DX")]
        self.write("a.hpp", "struct B {};\n")
        keys.append(self.key())
        self.write("a.cpp", '#include "a.hpp"\nB b;\n')
        keys.append(self.key())
        self.assertEqual(len(set(keys)), len(keys))

    def test_the_path_of_another_checkout_does_not_count(self):
        self.assertEqual(self.key(), self.key(arguments="-fmacro-prefix-map=/elsewhere/build/../=/"))

    def test_what_cannot_be_preprocessed_is_never_clean(self):
        self.write("a.cpp", '#include "nowhere.hpp"\n')
        self.assertIsNone(self.key())
        clean = clean_files.CleanFiles("checks", self.root / "kept")
        clean.add(None)
        self.assertFalse(clean.has(None))

    def test_only_what_was_added_is_clean(self):
        clean = clean_files.CleanFiles("checks", self.root / "kept")
        self.assertFalse(clean.has("1"))
        clean.add("1")
        self.assertTrue(clean.has("1"))
        self.assertFalse(clean.has("2"))


if __name__ == "__main__":
    unittest.main()
