#!/usr/bin/env python3
"""The search for what is defined twice, tested on small libraries: each kind is found, and what the
language allows is not.

usage: symbols_test.py [COMPILER...]
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

CAMPAIGNS = pathlib.Path(__file__).resolve().parents[1] / "campaigns"
sys.path.insert(0, str(CAMPAIGNS))

import symbols  # noqa: E402  (found by the line above)

KEEP = [argument for argument in sys.argv[1:] if argument == "-fkeep-inline-functions"]
COMPILER = [argument for argument in sys.argv[1:] if argument not in KEEP] or ["g++"]


class SymbolsTest(unittest.TestCase):
    def problems(self, *sources):
        """The verdict on libraries a, b, ... of one object each."""
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            for name, source in zip("abcd", sources):
                compiled = build / f"{name}.o"
                subprocess.run([*COMPILER, "-std=c++20", "-O0", "-x", "c++", "-c", "-o", compiled, "-"],
                               input=source, encoding="utf-8", check=True)
                (build / name).mkdir()
                subprocess.run(["ar", "cr", build / name / f"libshardsim_{name}.a", compiled],
                               check=True)
            return symbols.problems(symbols.symbols_of(symbols.libraries_of(build)))

    def test_an_inline_function_and_another_of_its_name(self):
        found = self.problems("namespace n { inline int twice(int x) { return x; } }\n"
                              "int a() { return n::twice(1); }",
                              "namespace n { long twice(int x) { return 2 * x; } }")
        self.assertEqual(found, ["n::twice(int) is defined in libshardsim_b.a:b.o, and another, "
                                 "inline, is in libshardsim_a.a:a.o"])

    def test_headers_that_nobody_compiles_are_compiled(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "sim/kernel").mkdir(parents=True)
            (root / "sim/kernel/a.hpp").write_text("#pragma once\ninline int f() { return 1; }\n"
                                                   "inline int g() { return f(); }\n",
                                                   encoding="utf-8")
            compiled = root / "headers"
            self.assertEqual(symbols.compile_headers(root, [*COMPILER, *KEEP], compiled), 1)
            found = symbols.symbols_of([compiled])
            self.assertEqual({name: kinds["weak"] for name, kinds in found.items()},
                             {"_Z1fv": ["headers"], "_Z1gv": ["headers"]} if KEEP else {})
            # Eigen is not on the path: neither this header nor what includes it is compiled.
            (root / "sim/kernel/c.hpp").write_text("#include <Eigen/Core>\n", encoding="utf-8")
            (root / "sim/kernel/d.hpp").write_text('#include "sim/kernel/c.hpp"\n', encoding="utf-8")
            self.assertEqual(symbols.compile_headers(root, COMPILER, compiled), 1)
            # Two functions that differ in what they return cannot even stand beside each other.
            (root / "sim/kernel/b.hpp").write_text("long f();\n", encoding="utf-8")
            with self.assertRaises(subprocess.CalledProcessError):
                symbols.compile_headers(root, COMPILER, compiled)

    def test_an_inline_variable_and_another_of_its_name(self):
        for other in ("int x = 2;", "int x;", "extern const int x; const int x = 2;"):
            found = self.problems("inline int x = 1; int a() { return x; }", other)
            self.assertEqual(found, ["x is defined in libshardsim_b.a:b.o, and another, inline, is in "
                                     "libshardsim_a.a:a.o"])

    def test_two_functions_of_one_name(self):
        self.assertEqual(self.problems("int f() { return 1; }", "", "int f() { return 2; }"),
                         ["f() is defined in libshardsim_a.a:a.o and in libshardsim_c.a:c.o"])

    def test_a_template_and_its_specialization_elsewhere(self):
        found = self.problems("template <class T> int f() { return 1; }\nint a() { return f<int>(); }",
                              "template <class T> int f();\ntemplate <> int f<int>() { return 2; }")
        self.assertEqual(len(found), 1)

    def test_what_the_language_allows(self):
        header = ("template <class T> T same(T x) { return x; }\n"
                  "inline int counted() { static int count = 0; return same(++count); }\n"
                  "struct Base { virtual ~Base() = default; };\n"
                  "static int own() { return counted(); }\n"
                  "namespace { int hidden() { Base b; return own(); } }\n")
        self.assertEqual(self.problems(header + "int f(int) { return hidden(); }",
                                       header + "int f(long) { return hidden(); }"), [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "--verbose"])
