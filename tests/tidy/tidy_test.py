#!/usr/bin/env python3
"""The tidy test, tested: a small clean tree passes, and each violation planted in it is reported,
at its line and by its rule, and nothing else is."""

import pathlib
import tempfile
import unittest
import unittest.mock

import rules
import source
import tidy

ROOT = pathlib.Path(__file__).resolve().parents[2]

CLEAN = {
    "sim/kernel/meson.build": "files('time.cpp')\n",
    "sim/kernel/time.hpp": "#pragma once\n\nlong now();\n",
    "sim/kernel/time.cpp": '#include "sim/kernel/time.hpp"\n\n#include <boost/fiber/fiber.hpp>\n',
    "sim/hardware/link.hpp": '#pragma once\n\n#include "sim/kernel/time.hpp"\n',
    "backends/communicator.hpp": '#pragma once\n\n#include "sim/hardware/link.hpp"\n',
    "backends/fiber/fiber_backend.hpp": '#pragma once\n\n#include "backends/communicator.hpp"\n',
    "strategies/ddp.hpp": '#pragma once\n\n#include "backends/communicator.hpp"\n',
    "scenarios/scenario.hpp": '#pragma once\n\n#include "strategies/ddp.hpp"\n',
    "reports/result.hpp": '#pragma once\n\n#include "sim/kernel/time.hpp"\n',
    "sim/run/run.hpp": ('#pragma once\n\n#include "backends/fiber/fiber_backend.hpp"\n'
                        '#include "reports/result.hpp"\n#include "scenarios/scenario.hpp"\n'
                        'void run_scenario(Scenario scenario);\n'),
}


class TidyTest(unittest.TestCase):
    def setUp(self):
        left = unittest.mock.patch.dict(rules.OPENINGS_LEFT, dict.fromkeys(rules.OPENINGS_LEFT, 0))
        left.start()
        self.addCleanup(left.stop)

    def check(self, changes, exceptions=""):
        """(rule, path, line) of all violations in the clean tree with some files changed."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in {**CLEAN, **changes}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
            (root / "exceptions.txt").write_text(exceptions, encoding="utf-8")
            violations, _ = tidy.check_tree(root, root / "exceptions.txt")
        return [(violation.rule, violation.path, violation.line) for violation in violations]

    def check_header(self, path, *lines):
        """The same for one header that is a #pragma once and then these lines, from line 2."""
        return self.check({path: "\n".join(["#pragma once", *lines]) + "\n"})

    def test_a_clean_tree_has_no_violation(self):
        self.assertEqual(self.check({}), [])

    def test_a_comment_opens_with_its_subject(self):
        for line in ("// Of a rank, the last.", "/// Who reads it gets one.", "int x;  ///< What it keeps.",
                     "// Kept. Of these, the last."):
            with self.subTest(line=line):
                self.assertEqual(self.check_header("sim/run/bad.hpp", line), [("opening", "sim/run/bad.hpp", 2)])
        for line in ("// What does it keep?", "// A list of what it keeps.", 'auto s = "// Of a rank.";'):
            with self.subTest(line=line):
                self.assertEqual(self.check_header("sim/run/fine.hpp", line), [])

    def test_the_number_of_openings_must_be_lowered_when_they_are_fewer(self):
        with unittest.mock.patch.dict(rules.OPENINGS_LEFT, {"sim": 1}):
            self.assertEqual(self.check({}), [("opening", "sim", 1)])

    def test_a_lower_layer_must_not_include_a_higher_one(self):
        for path, included in (
                ("sim/kernel/bad.hpp", "sim/hardware/link.hpp"),
                ("sim/hardware/bad.hpp", "backends/communicator.hpp"),
                ("backends/bad.hpp", "strategies/ddp.hpp"),
                ("backends/fiber/bad.hpp", "scenarios/scenario.hpp"),
                ("strategies/model/bad.hpp", "scenarios/scenario.hpp"),
                ("scenarios/bad.hpp", "sim/run/run.hpp"),
                ("scenarios/bad.hpp", "reports/result.hpp"),
                ("reports/bad.hpp", "sim/run/run.hpp"),
                ("reports/bad.hpp", "sim/hardware/link.hpp")):
            with self.subTest(path=path, included=included):
                self.assertEqual(self.check_header(path, f'#include "{included}"'),
                                 [("direction", path, 2)])

    def test_a_merge_is_finished(self):
        text = "\n".join(("# Changes", "<" * 7 + " HEAD", "- one", "=" * 7, "- two", ">" * 7 + " 1234567 Two"))
        for path in ("CHANGELOG.md", "docs/guide/plan.md", "tests/app/data.json"):
            self.assertEqual(self.check({path: text}), [("conflict", path, 2), ("conflict", path, 6)])

    def test_the_product_must_not_include_tests(self):
        self.assertEqual(
            self.check({"tests/fake.hpp": "#pragma once\n",
                        "sim/run/bad.hpp": '#pragma once\n#include "tests/fake.hpp"\n'}),
            [("direction", "sim/run/bad.hpp", 2)])

    def test_strategies_must_not_know_a_backend(self):
        for path in ("strategies/bad.hpp", "scenarios/bad.hpp"):
            self.assertEqual(self.check_header(path, '#include "backends/fiber/fiber_backend.hpp"'),
                             [("direction", path, 2)])

    def test_reports_see_only_the_basics_of_the_kernel(self):
        self.assertEqual(
            self.check({"sim/kernel/engine.hpp": "#pragma once\n",
                        "reports/bad.hpp": '#pragma once\n#include "sim/kernel/engine.hpp"\n'}),
            [("direction", "reports/bad.hpp", 2)])

    def test_a_cycle_is_reported_once(self):
        self.assertEqual(
            self.check({"sim/kernel/a.hpp": '#pragma once\n#include "sim/kernel/b.hpp"\n',
                        "sim/kernel/b.hpp": '#pragma once\n#include "sim/kernel/c.hpp"\n',
                        "sim/kernel/c.hpp": '#pragma once\n#include "sim/kernel/a.hpp"\n'}),
            [("cycle", "sim/kernel/a.hpp", 1)])

    def test_includes_start_at_the_root(self):
        self.assertEqual(self.check_header("sim/kernel/bad.hpp", '#include "time.hpp"'),
                         [("include-path", "sim/kernel/bad.hpp", 2)])

    def test_files_have_a_longest_length(self):
        long_header = "#pragma once\n" + "int x;\n" * rules.MAX_HEADER_LINES
        long_source = "int x;\n" * (rules.MAX_LINES + 1)
        self.assertEqual(
            self.check({"sim/kernel/long.hpp": long_header, "sim/kernel/long.cpp": long_source,
                        "sim/kernel/meson.build": "files('time.cpp', 'long.cpp')\n"}),
            [("size", "sim/kernel/long.cpp", rules.MAX_LINES),
             ("size", "sim/kernel/long.hpp", rules.MAX_HEADER_LINES)])

    def test_a_file_of_exactly_the_longest_length_passes(self):
        self.assertEqual(
            self.check({"sim/kernel/long.hpp":
                        "#pragma once\n" + "int x;\n" * (rules.MAX_HEADER_LINES - 1)}), [])

    def test_a_header_guards_itself(self):
        self.assertEqual(self.check({"sim/kernel/bad.hpp": "// #pragma once\nint x;\n"}),
                         [("pragma-once", "sim/kernel/bad.hpp", 1)])

    def test_every_ban_bites_in_each_of_its_folders(self):
        planted = {
            "wall-clock": "auto t = std::chrono::steady_clock::now();",
            "unseeded-random": "int r = rand() % 6;",
            "real-sleep": "std::this_thread::sleep_for(d);",
            "timed-wait": "cv.wait_for(lock, d);",
            "lock": "std::mutex m;",
            "unordered": "std::unordered_map<int, int> m;",
            "pointer-key": "std::map<const Rank*, int> m;",
            "std-hash": "auto h = std::hash<int>{}(3);",
            "long-double": "long double x = 1;",
            "libm-in-prices": "double t = std::pow(x, 0.5);",
            "data-or-shapes": "if (!gradients.has_data()) return;",
            "build-date": "const char* d = __DATE__;",
            "source-location": "void f(std::source_location l);",
            "terminal": 'std::printf("%d", 3);',
            "process-end": "std::exit(3);",
            "file-writer": "std::ofstream file(path);",
            "using-namespace": "using namespace std;",
            "unfinished": "// TODO: later.",
        }
        self.assertEqual(sorted(planted), sorted(ban.name for ban in rules.BANS))
        for ban in rules.BANS:
            for folder in ban.folders:
                path = ("sim/kernel" if folder == "sim" else folder) + "/bad.hpp"
                with self.subTest(ban=ban.name, path=path):
                    self.assertEqual(self.check_header(path, "", planted[ban.name]),
                                     [(ban.name, path, 3)])

    def test_bans_read_code_and_not_prose(self):
        self.assertEqual(self.check_header(
            "sim/kernel/fine.hpp", "// rand() and std::mutex are banned here.",
            "/* std::exit(1); */ const char* a = \"steady_clock\";",
            'const char* b = R"x(a " rand() " b)x";',
            "const int c = 1'000'000; const char d = '\"'; // long double",
            "int operand = 3; report.printf(4);"), [])

    def test_a_string_does_not_hide_the_code_behind_it(self):
        self.assertEqual(self.check_header(
            "sim/kernel/bad.hpp", "const char* a = \"\\\"//\"; std::mutex m;",
            "const int b = 1'000; std::mutex n;"),
            [("lock", "sim/kernel/bad.hpp", 2), ("lock", "sim/kernel/bad.hpp", 3)])

    def test_libraries_are_included_only_where_they_are_allowed(self):
        for rule, path, name in (
                ("json-include", "scenarios/bad.hpp", "nlohmann/json.hpp"),
                ("json-include", "strategies/bad.hpp", "nlohmann/json.hpp"),
                ("cli-include", "scenarios/bad.hpp", "CLI/CLI.hpp"),
                ("cli-include", "sim/run/bad.hpp", "CLI/CLI.hpp"),
                ("boost-include", "sim/kernel/bad.hpp", "boost/fiber/fiber.hpp"),
                ("boost-include", "strategies/bad.hpp", "boost/fiber/fiber.hpp")):
            with self.subTest(path=path, name=name):
                self.assertEqual(self.check_header(path, f"#include <{name}>"), [(rule, path, 2)])

    def test_a_source_that_is_never_built_is_reported(self):
        self.assertEqual(
            self.check({"tests/kernel/dead_test.cpp": "", "tests/kernel/meson.build":
                        "test_sources = files(\n  # 'dead_test.cpp',\n)\n"}),
            [("not-built", "tests/kernel/dead_test.cpp", 1)])

    def test_a_case_that_no_test_runs_is_reported(self):
        build = {"tests/kernel/meson.build": "test_sources = files('late.cpp', 'late_test.cpp')\n"}
        case = '#include <x>\nTEST_CASE("late") {}\n'
        self.assertEqual(self.check({"tests/kernel/late.cpp": case, "tests/kernel/late_test.cpp": case, **build}),
                         [("not-run", "tests/kernel/late.cpp", 2)])
        hidden = 'TEST_CASE("a rank", "[.rank]") {}\n'
        self.assertEqual(self.check({"tests/kernel/late.cpp": hidden, "tests/kernel/late_test.cpp": "", **build}), [])

    def test_a_source_may_be_named_from_another_folder(self):
        self.assertEqual(
            self.check({"tests/kernel/shared.cpp": "", "tests/property/meson.build":
                        "test_sources = files('../kernel/shared.cpp')\n"}), [])

    def test_an_error_code_belongs_to_one_layer(self):
        kernel = '#pragma once\nconst char* const kLate = "E0301";\n'
        self.assertEqual(
            self.check({"sim/kernel/late.hpp": kernel, "sim/kernel/later.hpp": kernel,
                        "tests/late_test.hpp": kernel,
                        "strategies/prose.hpp": '#pragma once\n// as "E0301" says\n'}), [])
        self.assertEqual(
            self.check({"sim/kernel/late.hpp": kernel,
                        "scenarios/limit.hpp": '#pragma once\n\nconst char* const kMany = "E0301";\n'}),
            [("error-code", "sim/kernel/late.hpp", 2)])

    SCHEDULES = {"strategies/pipeline/schedule_table.cpp": 'Row{.name = "gpipe"},\nRow{.name = "zb_v"},\n',
                 "strategies/pipeline/meson.build": "files('schedule_table.cpp')\n"}
    OPTIMIZERS = {"strategies/optimizer/rules.cpp": 'Rule{.name = "adamw"},\nRule{.name = "momentum"},\n',
                  "strategies/optimizer/meson.build": "files('rules.cpp')\n"}
    COMPRESSORS = {"strategies/gradient_sync/compressors.cpp": 'Row{.name = "top_k"},\nRow{.name = "int8"},\n',
                   "strategies/gradient_sync/meson.build": "files('compressors.cpp')\n"}
    FORMS = {"strategies/sharding/context_table.cpp":
             'Row{.form = ContextAttention::ring, .name = "ring", .megatron = "p2p"},\n'
             'Row{.form = ContextAttention::ulysses, .name = "ulysses", .megatron = "a2a"},\n',
             "strategies/model/context_attention.hpp":
             "#pragma once\n\nconstexpr ContextAttention kDefault = ContextAttention::ring;\n",
             "strategies/sharding/meson.build": "files('context_table.cpp')\n"}
    ROUTINGS = {"strategies/model/routing.cpp":
                'Row{.kind = RoutingKind::uniform, .name = "uniform"},\n'
                'Row{.kind = RoutingKind::skewed, .name = "skewed"},\n',
                "strategies/model/routing.hpp":
                "#pragma once\n\nconstexpr RoutingKind kDefault = RoutingKind::uniform;\n",
                "strategies/model/meson.build": "files('routing.cpp')\n"}
    KINDS = {"sim/hardware/collective_rows.hpp":
             '#pragma once\n    {CollectiveKind::all_gather, "all_gather", CollectivePath::ring},\n'
             '    {CollectiveKind::reduce,\n     "reduce", CollectivePath::chain},\n'}
    SOFTWARE = {"sim/hardware/software.cpp": 'Row{.name = "composer-2023"},\nsoftware.name = "megatron-lm-2021";\n',
                "sim/hardware/meson.build": "files('software.cpp')\n"}
    METRICS = {"sim/kernel/metric_rows.hpp":
               '#pragma once\n  ROW(kMfu, real, always, "", "mfu", "Share.") \\\n'
               '  ROW(kRanks, whole, always, "", "ranks", "Size.") \\\n'
               '  ROW(kTimeBubbleS, real, always, "s/step", \\\n      "time.bubble_s", "Idle.")\n'}

    def test_a_name_of_a_table_stands_nowhere_else(self):
        for table, rule, planted in (
                (self.SCHEDULES, "schedule-name", 'bool a = name == "zb_v";'),
                (self.SCHEDULES, "schedule-name", 'const char* a = "or take gpipe, which";'),
                (self.SCHEDULES, "schedule-name", 'const char* a = R"({"schedule": "gpipe"})";'),
                (self.OPTIMIZERS, "optimizer-name", 'bool a = name == "adamw";'),
                (self.COMPRESSORS, "compressor-name", 'bool a = name == "top_k";'),
                (self.COMPRESSORS, "compressor-name", 'const char* a = "a smaller share, or top_k";'),
                (self.FORMS, "attention-name", 'const char* a = "use ulysses";'),
                (self.FORMS, "attention-name", 'bool a = way == "a2a";'),
                (self.FORMS, "attention-name", "bool a = form == ContextAttention::ring;"),
                (self.FORMS, "attention-name", "using enum shardsim::ContextAttention;"),
                (self.ROUTINGS, "routing-name", 'const char* a = "routing is skewed";'),
                (self.ROUTINGS, "routing-name", "bool a = kind != RoutingKind::uniform;"),
                (self.KINDS, "collective-name", 'bool a = name == "all_gather";'),
                (self.KINDS, "collective-name", 'const char* a = "an all_gather of all";'),
                (self.KINDS, "collective-name", 'bool a = name == "reduce";'),
                (self.KINDS, "collective-name", "bool a = kind == CollectiveKind::all_gather;"),
                (self.KINDS, "collective-name", "using Kind = shardsim::CollectiveKind;"),
                (self.KINDS, "collective-name", "bool a = kind != collective::kAllGather;"),
                (self.KINDS, "collective-name", "bool a = collective::kReduce == kind;"),
                (self.KINDS, "collective-name", "case collective::kReduce:"),
                (self.KINDS, "collective-name", "bool a = row == &collective::kReduce;"),
                (self.KINDS, "collective-name", "case TestedOperation::reduce:"),
                (self.SOFTWARE, "software-name", 'bool a = software->name == "composer-2023"sv;'),
                (self.SOFTWARE, "software-name", 'const char* a = "take megatron-lm-2021 for it";'),
                (self.METRICS, "metric-name", 'double a = result.number("mfu");'),
                (self.METRICS, "metric-name", 'double a = result.number("time.bubble_s");')):
            for folder in rules.PRODUCT:
                path = ("sim/run" if folder == "sim" else folder) + "/bad.hpp"
                with self.subTest(path=path, planted=planted):
                    self.assertEqual(self.check({**table, path: f"#pragma once\n\n{planted}\n"}),
                                     [(rule, path, 3)])

    def test_other_words_tests_and_comments_are_no_name_of_a_table(self):
        fine = ('#pragma once\n// as "zb_v" and "mfu" do\nconst char* a = "scenarios/pp4-gpipe.json";\n'
                'const char* b = "gpipe.csv";\nconst char* c = "gpiped";\nconst char* d = "ranks";\n')
        self.assertEqual(self.check({**self.SCHEDULES, **self.METRICS, "sim/run/fine.hpp": fine}), [])
        self.assertEqual(self.check({**self.SCHEDULES, **self.METRICS,
                                     "tests/a.hpp": '#pragma once\nconst char* a = "gpipe";\n'}), [])
        fine = '#pragma once\n// as "top_k" does\nconst char* a = "an int8";\nconst char* b = "select_top_k";\n'
        self.assertEqual(self.check({**self.COMPRESSORS, "sim/run/fine.hpp": fine}), [])

    def test_only_the_experiment_makes_objects_of_a_scenarios_fields(self):
        code = '#pragma once\n\n#include "sim/experiment/derive.hpp"\n'
        found = self.check({"sim/run/planted.hpp": code})
        self.assertIn(("derive-include", "sim/run/planted.hpp", 3), found)

    def test_every_table_of_names_is_in_the_tree(self):
        for rule in rules.NAME_RULES:
            self.assertTrue(rule.names_in((ROOT / rule.table).read_text(encoding="utf-8")), rule.name)

    def test_a_word_that_is_a_whole_string_is_a_name(self):
        for table, rule, word in ((self.COMPRESSORS, "compressor-name", "int8"),
                                  (self.FORMS, "attention-name", "ring"),
                                  (self.ROUTINGS, "routing-name", "uniform")):
            code = f'#pragma once\n\nbool a = name == "{word}";\n'
            self.assertEqual(self.check({**table, "sim/run/planted.hpp": code}),
                             [(rule, "sim/run/planted.hpp", 3)])

    def test_rows_plain_words_tests_and_comments_say_no_enumerator(self):
        fine = ('#pragma once\n// as ContextAttention::ulysses does\nconst char* a = "all of the ring";\n'
                'const char* b = "ContextAttention::ring";\nauto c = &ContextAttentionRow::megatron;\n'
                'ContextAttention d{};\nconst char* e = "uniform in a file";\n')
        self.assertEqual(self.check({**self.FORMS, **self.ROUTINGS, "sim/run/fine.hpp": fine}), [])
        self.assertEqual(self.check({**self.FORMS, **self.ROUTINGS,
                                     "tests/a.hpp": "#pragma once\nauto a = ContextAttention::ulysses;\n"
                                     'bool b = kind == RoutingKind::skewed && name == "skewed";\n'}), [])

    def test_a_kind_of_collective_is_called_by_its_row(self):
        fine = ('#pragma once\n// CollectiveKind::reduce\nauto a = group.collective(collective::kReduce, b, b);\n'
                'Work c = group.all_gather(d, e);\nconst char* f = "reduce in bf16";\n'
                'auto g = TestedOperation::sendrecv;\nCollectiveKind h = collective::kAllGather;\n')
        self.assertEqual(self.check({**self.KINDS, "sim/run/fine.hpp": fine}), [])
        self.assertEqual(self.check({**self.KINDS, "tests/a.hpp":
                                     "#pragma once\nauto a = CollectiveKind::all_gather;\n"}), [])

    def test_a_table_without_names_is_reported(self):
        self.assertEqual(self.check({"sim/kernel/metric_rows.hpp": "#pragma once\n"}),
                         [("metric-name", "sim/kernel/metric_rows.hpp", 1)])

    def test_few_functions_take_a_scenario(self):
        for taker in ("void price(const Scenario& scenario);", "int f(int ranks, Scenario* changed = nullptr);",
                      "const auto price = [](const Scenario& s) { return 1; };",
                      "void all(const std::vector<Scenario>& plans, int count);",
                      "void with(const std::function<void(int)>& progress, Scenario scenario);"):
            with self.subTest(taker=taker):
                self.assertEqual(self.check_header("sim/run/bad.hpp", taker), [("takes-scenario", "sim/run/bad.hpp", 2)])
                for path in ("scenarios/fine.hpp", "sim/experiment/fine.hpp", "tests/fine.hpp"):
                    self.assertEqual(self.check_header(path, taker), [])
        self.assertEqual(self.check_header(
            "sim/run/fine.hpp", "Scenario load(const std::string& path);", "// f(const Scenario& s)",
            "const Experiment e = compile(Scenario{});", "void f(const ScenarioError& error);"), [])

    def test_a_function_that_takes_no_scenario_any_more_is_struck_off_the_list(self):
        path, names = next(iter(rules.SCENARIO_TAKERS.items()))
        takers = [f"void {name}(Scenario scenario);" for name in names]
        self.assertEqual(self.check_header(path + ".hpp", *takers), [])
        self.assertEqual(self.check_header(path + ".hpp", *takers[1:]), [("takes-scenario", path, 1)])

    def test_an_exception_excuses_its_file_and_rule_only(self):
        bad = {"sim/kernel/a.hpp": "#pragma once\nlong double x;\n",
               "sim/kernel/b.hpp": "#pragma once\nlong double y;\n"}
        self.assertEqual(self.check(bad, "long-double sim/kernel/a.hpp a written reason stands here\n"),
                         [("long-double", "sim/kernel/b.hpp", 2)])

    def test_an_exception_needs_a_reason_and_a_use(self):
        self.assertEqual(self.check({}, "# comment\n\nlock sim/kernel/time.hpp\n"),
                         [("exception", "exceptions.txt", 3)])
        self.assertEqual(self.check({}, "lock sim/kernel/time.hpp a reason in words\n"),
                         [("exception", "exceptions.txt", 1)])

    def test_blanking_keeps_every_position(self):
        text = 'int a; // x\n"s" b /* \n */ c 1\'0 R"(\n)" d\n'
        code = source.code_only(text)
        self.assertEqual(len(code), len(text))
        for word in "abcd":
            self.assertEqual(code.index(f"{word}"), text.index(f" {word}") + 1)
        self.assertNotIn("x", code)
        self.assertNotIn("s", code)


if __name__ == "__main__":
    unittest.main()
