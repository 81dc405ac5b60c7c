#!/usr/bin/env python3
"""GCC and Clang build the same tables and prices, and the comparison finds differences.

Faults are planted in scratch copies of the sources, never in the tree.

usage: compare_tables_test.py FOLDER COMPILER COMPILER [FLAG...]     exits with 77 without both compilers
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import compare_tables
import constants_of

SKIPPED = 77
SOFTWARE = "sim/hardware/software"

# The smallest program that shows whether a compiler has GCC 12's fault, which lost a table of prices
# (docs/decisions/0049-tables-of-two-compilers.md).
FAULT = """
#include <array>
#include <cstddef>
#include <cstdio>
struct Use { double kernels = 1.0; double traffic = 1.0; };
using Uses = std::array<Use, 6>;
constexpr Uses with(Uses uses, std::size_t place) {
  uses[place] = {0.5, 0.5};
  return uses;
}
constexpr Uses kPlain = with({}, 5);
constexpr Uses kOther = with(kPlain, 2);
int main() { for (const Use& use : kPlain) std::printf("%g ", use.kernels * kOther[2].traffic); }
"""

# A table that differs between compilers in every version.
OTHER_TABLE = """
namespace shardsim {
namespace {
struct Planted { double share = 1.0; const char* name = ""; };
#ifdef __clang__
constexpr Planted kPlanted[] = {{0.5, "first"}, {0.25, "second"}};
#else
constexpr Planted kPlanted[] = {{0.5, "first"}, {0.125, "second"}};
#endif
}
}
"""


class CompareTablesTest(unittest.TestCase):
    folder = pathlib.Path()
    compilers = []
    flags = []

    def planted(self, files):
        """The output of both compilers for a root with these files; {path: text}."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                compare_tables.write_if_new(pathlib.Path(root) / path, text)
            return compare_tables.tables(pathlib.Path(root) / "build", self.compilers, self.flags, root)

    def difference(self, outputs):
        return compare_tables.difference(self.compilers, outputs)

    def test_tables_and_prices_are_the_same_and_no_constant_is_left_out(self):
        programs, constants = compare_tables.programs_with_prices(self.folder, self.compilers, self.flags)
        presets = compare_tables.text_of_presets(compare_tables.ROOT)
        outputs = [compare_tables.output_of(program, presets) for program in programs]
        self.assertEqual(self.difference(outputs), "")
        # The names come from the text of the sources; they include all symbols that the compilers kept.
        names = {name for _, name in constants}
        for program in programs:
            symbols = subprocess.run(["nm", "--demangle", f"{program}.o"], check=True, stdout=subprocess.PIPE, text=True).stdout
            kept = set(re.findall(r" [rRdDbBuVwW] shardsim::(?:\(anonymous namespace\)::)?(k[A-Z]\w*)$", symbols, re.MULTILINE))
            self.assertIn("kSoftware", kept)
            self.assertEqual(kept - names, set())
        self.assert_is_complete(outputs[0])
        # A new field of a preset is not ignored.
        with self.assertRaisesRegex(compare_tables.Failure, "does not know the field of a preset: device.colour"):
            compare_tables.output_of(programs[0], "preset one\ndevice.colour 3\n")

    def assert_is_complete(self, output):
        """Prices of each software row under each preset, of several families and kinds."""
        rows = re.findall(r'kSoftware\[\d+\]\.0 = "(.+)"', output)
        self.assertEqual(len(rows), 10)
        families = re.findall(r'kFamilyNames\[\d+\] = "(.+)"', output)
        self.assertEqual(len(families), 25)
        presets = [path.stem for path in (compare_tables.ROOT / "scenarios/systems").glob("*.json")]
        self.assertGreaterEqual(len(presets), 12)
        printed = set(re.findall(r"^(\S+ \S+ \S+) (?:bf16|fp32) .* = \d+ ps, host \d+ ps$", output, re.MULTILINE))
        nvidia = {preset for preset in presets if f"\n{preset} nccl " in output}
        self.assertGreaterEqual(len(nvidia), 18)
        self.assertEqual(printed, {f"{preset} {row} {family}" for preset in presets
                                   for row in [*(rows if preset in nvidia else []), "none"] for family in families})
        self.assertIn("dgx-h100 none matrix_product fp8_e4m3 ", output)
        kinds = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce", "gather", "scatter", "barrier")
        for preset in nvidia:
            for kind in kinds:
                self.assertIn(f"\n{preset} nccl 2.30.7 world {kind} 40004 B = ", output)

    def test_the_table_that_gcc_12_lost_is_found_where_a_compiler_has_the_fault(self):
        header = (compare_tables.ROOT / f"{SOFTWARE}.hpp").read_text(encoding="utf-8")
        table = (compare_tables.ROOT / f"{SOFTWARE}.cpp").read_text(encoding="utf-8")
        for text, now, then in ((header, "double kernels;", "double kernels = 1.0;"),
                                (header, "double traffic;", "double traffic = 1.0;"),
                                (table, "with(one_kernel_each(),", "with({},")):
            self.assertEqual(text.count(now), 1, f"the plant expects {now}")
            header, table = (part.replace(now, then) for part in (header, table))
        found = self.difference(self.planted({f"{SOFTWARE}.hpp": header, f"{SOFTWARE}.cpp": table}))
        have = [self.has_the_fault(compiler) for compiler in self.compilers]
        if have[0] == have[1]:  # This compiler has no fault; the next test shows that differences are found.
            self.assertEqual(found, "")
            self.skipTest("no compiler here, or both, has the fault")
        self.assertIn("sim/hardware/software.cpp kPlain[2].0 = 0 0x0p+0", found)

    def has_the_fault(self, compiler):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "fault.cpp"
            program.write_text(FAULT, encoding="utf-8")
            return compare_tables.output_of(compare_tables.build([compiler], self.flags, (), [program])[0]) != "0.5 0.5 0.5 0.5 0.5 0.25 "

    def test_a_table_that_depends_on_the_compiler_is_found_in_a_source_that_nobody_named(self):
        found = self.difference(self.planted({"sim/hardware/deep/planted.cpp": OTHER_TABLE}))
        self.assertIn("-sim/hardware/deep/planted.cpp kPlanted[1].0 = 0.125 ", found)
        self.assertIn("+sim/hardware/deep/planted.cpp kPlanted[1].0 = 0.25 ", found)
        self.assertNotIn("kPlanted[0]", found)

    def test_a_table_that_cannot_be_printed_is_refused_with_its_place(self):
        hidden = "namespace shardsim {\nint f() {\n  static constexpr Row kRows[] = {{1}};\n  return kRows[0].a;\n}\n}\n"
        with self.assertRaisesRegex(compare_tables.Failure, r"planted\.cpp: line 3: a table that a function or class hides"):
            self.planted({"sim/hardware/planted.cpp": hidden})


class ConstantsOfTest(unittest.TestCase):
    def names(self, text):
        names, problems = constants_of.constants_of(text)
        self.assertEqual(problems, [])
        return names

    def problems(self, text):
        names, problems = constants_of.constants_of(text)
        self.assertEqual(names, [])
        return problems

    def test_each_way_to_write_a_constant_is_found(self):
        self.assertEqual(self.names("namespace a {\nnamespace {\nconstexpr std::array<Row, 2> kRows = {{{1}, {2}}};\n}\n}"), ["kRows"])
        self.assertEqual(self.names("inline constexpr Bytes kBytes{1,\n \"text\"};"), ["kBytes"])
        self.assertEqual(self.names("const Family kFamilies[] = {{1}};"), ["kFamilies"])
        self.assertEqual(self.names("constexpr double\n    kGrid[2][3] = {};"), ["kGrid"])
        self.assertEqual(self.names("constexpr Row kOne(1, 2);"), ["kOne"])
        self.assertEqual(self.names("static constexpr Row kOne = made({}, 3);\nconstexpr Row kTwo = kOne;"), ["kOne", "kTwo"])
        self.assertEqual(self.names("namespace a::b {\nconstexpr int kA = 1;\n}\nconstexpr int kB = 2;"), ["kA", "kB"])

    def test_what_is_no_constant_is_not(self):
        self.assertEqual(self.names("constexpr Rows with(Rows rows, int kOdd = 3) { const int k = 3; return rows; }"), [])
        self.assertEqual(self.names("const Row& row_of(int i) { if constexpr (true) { return kRows[i]; } }"), [])
        self.assertEqual(self.names("// constexpr int kA = 1;\nextern const Row kRow;\nconst char* f(const char* text) { return text; }"), [])
        self.assertEqual(self.names("namespace rows {\ninline constexpr const Row& kFirst = kRows[0];\n}"), [])
        self.assertEqual(self.names("struct A { static constexpr int kCount = 5; const int b = 1; };"), [])
        self.assertEqual(self.names("const char* f() { static constexpr const char* kNames[] = {\"a\"}; return kNames[0]; }"), [])

    def test_what_no_program_could_print_is_a_problem(self):
        self.assertRegex(self.problems("constexpr Row row = {1};")[0], "line 1: a constant is named kName")
        self.assertRegex(self.problems("\nclass A {\n  static constexpr Row kRow{1};\n};")[0], "line 3: a table that a function or class")
        self.assertRegex(self.problems("void f() {\n  static const std::map<int, Row> rows = {};\n}")[0], "line 2: a table that")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    CompareTablesTest.folder = pathlib.Path(sys.argv[1])
    CompareTablesTest.compilers = sys.argv[2:4]
    CompareTablesTest.flags = sys.argv[4:]
    absent = [compiler for compiler in CompareTablesTest.compilers if not shutil.which(compiler)]
    if absent:
        print(f"skipped: {' and '.join(absent)} cannot be found; `./dev test` installs it")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1], verbosity=2)
