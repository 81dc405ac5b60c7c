#!/usr/bin/env python3
"""The scripts that write docs/guide/accuracy.md, on a small report whose figures are known by hand."""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import accuracy_plot  # noqa: E402
import accuracy_tables  # noqa: E402
import collective_errors  # noqa: E402
import part_errors  # noqa: E402

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/guide/accuracy.md"
GROUPS = [{"value": "8", "rows": 3, "mean_absolute_error": 0.25, "bias": -0.125},
          {"value": "16", "rows": 1, "mean_absolute_error": 0.5, "bias": 0.5}]


def row(predicted, measured, **more):
    return {"device": "h100-sxm", "step_time_s": {"predicted": predicted, "measured": measured,
                                                  "error": predicted / measured - 1}, **more}


def table(name, rows):
    return {"name": name, "rows": rows, "headline": {"step_time_s": {"mean_absolute_error": 0.25}},
            "varies_with": [{"by": "gpus", "explained": 0.75, "spread": 0.625, "groups": GROUPS},
                            {"by": "tp", "explained": -0.1, "spread": 0.1, "groups": GROUPS},
                            {"by": "pp", "explained": None, "spread": 0.1, "groups": GROUPS}]}


REPORT = {"by": {"gpus": GROUPS},
          "largest_residuals": [{"table": "a", "line": 4, "error": -0.5, "measured": 8.0, "predicted": 4.0, "missing": 4.0,
                                 "parts": {"compute_s": 2.0, "exposed_comm_s": 1.0, "host_s": 0.75, "bubble_s": 0.25}}],
          "tables": [table("a", [row(1.0, 10.0), row(100.0, 10.0, apart="not confirmed")]),
                     table("b", [row(50.0, 100.0), row(1.5, 1.0), {"not_represented": "no"}])]}


class Tables(unittest.TestCase):
    def test_groups_of_all_tables_stand_in_one_cell(self):
        self.assertEqual(accuracy_tables.by_trait(REPORT)[2:], ["| GPUs | 8: 25.0 % (-12.5, 3); 16: 50.0 % (+50.0, 1) |"])

    def test_the_largest_residuals_have_their_parts(self):
        self.assertEqual(accuracy_tables.largest(REPORT)[2:],
                         ["| `a` | 4 | -50.0 % | 8.00 | 4.00 | 4.00 | 2.00 | 1.00 | 0.75 | 0.25 |"])

    def test_what_explains_nothing_is_left_out(self):
        cells = "| GPUs | 75 % | 8: -12.5 (3); 16: +50.0 (1) |"
        self.assertEqual(accuracy_tables.varies_with(REPORT)[2:], [f"| `a` {cells}", f"| `b` {cells}"])

    def test_a_table_is_replaced_between_its_comments(self):
        page = "x\n<!-- by -->\nold\n<!-- end of by -->\ny\n"
        self.assertEqual(accuracy_tables.with_table(page, "by", ["| new |"]),
                         "x\n<!-- by -->\n\n| new |\n\n<!-- end of by -->\ny\n")
        with self.assertRaises(SystemExit):
            accuracy_tables.with_table(page, "other", [])


class Plot(unittest.TestCase):
    def test_rows_of_the_headline_lie_where_their_times_are(self):
        svg = accuracy_plot.plot(REPORT)
        # From 1 to 100 s are 520 pixels: 10 s is in the middle, 1 s at the lower edge. Ratios from 1/16 to 2
        # are 220 pixels below: 50 of 100 s is at three fifths.
        self.assertIn('d="M324.0 544.0h0"', svg)
        self.assertIn('d="M584.0 712.0h0M', svg)
        self.assertEqual(len(re.findall("M[0-9. ]+h0", svg)), 2 * 3)
        self.assertIn(">25.0 %, 2 rows<", svg)
        self.assertEqual(svg, accuracy_plot.plot(REPORT))

    def test_the_page_and_its_plot_are_of_one_report(self):
        shown = dict(re.findall(r">([a-z_0-9]+)</text>\n<text [^>]*>([0-9.]+ %, [0-9]+ rows)<",
                                PAGE.with_suffix(".svg").read_text(encoding="utf-8")))
        rows = re.findall(r"^\| `(\w+)` \| step time \| (\d+) \| ([0-9.]+ %) ", PAGE.read_text(encoding="utf-8"), re.M)
        self.assertEqual(shown, {name: f"{error}, {count} rows" for name, count, error in rows})
        self.assertGreater(len(shown), 10)


class Parts(unittest.TestCase):
    PRINTED = """
gemm_xla_grid.csv                                          b200-sxm   fitted  298 rows 20.91%   held out   74 rows 20.75%
the best of a search over shapes is 1.0765 times as fast as predicted (A100 PCIe)
attention_kernel_throughput.csv (unconfirmed, rates not fit) a100-sxm   fitted   52 rows  5.92%   held out   13 rows  5.66%
attention_kernel_throughput.csv (flash3)                   h100-sxm   fitted   20 rows  5.91%   held out    4 rows  2.59%
attention_kernel_throughput_more.csv, cuDNN 9, fwd         h100-sxm   fitted   20 rows  4.91%   held out    4 rows  1.25%
delta_rule_aiconfigurator.csv                              b200-sxm   fitted   36 rows 12.42%   held out    9 rows  9.59%
"""

    def test_kernels_have_the_errors_that_the_fit_prints(self):
        found = part_errors.kernel_errors(self.PRINTED)
        self.assertEqual(dict(found), {("products", "b200-sxm"): ["20.8 % (gemm_xla_grid)"],
                                       ("attention", "a100-sxm"): ["5.7 % (unconfirmed, rates not fit)"],
                                       ("attention", "h100-sxm"): ["2.6 % (flash3)", "1.2 % (cuDNN 9, fwd)"],
                                       ("delta rule", "b200-sxm"): ["9.6 % (delta_rule_aiconfigurator)"]})
        with self.assertRaises(SystemExit):
            part_errors.kernel_errors("nothing\n")

    def test_parts_stand_beside_the_whole_steps_of_a_gpu(self):
        whole = part_errors.whole_errors(REPORT)
        self.assertEqual(whole, {"h100-sxm": "63.3 % (-30.0, 3 rows)"})
        lines = part_errors.part_table(whole, part_errors.kernel_errors(self.PRINTED), {"b200-sxm": "1 %, 2 %, 3 %"})
        self.assertEqual(lines[2:], ["| b200-sxm | - | 20.8 % (gemm_xla_grid) | - | 9.6 % (delta_rule_aiconfigurator) | 1 %, 2 %, 3 % |",
                                     "| h100-sxm | 63.3 % (-30.0, 3 rows) | - | 2.6 % (flash3); 1.2 % (cuDNN 9, fwd) | - | - |"])

    def test_sizes_belong_to_one_range(self):
        mib = 1 << 20
        self.assertEqual([collective_errors.band_of(size) for size in (mib - 1, mib, 32 * mib)],
                         ["below 1 MiB", "1 to 32 MiB", "from 32 MiB on"])


if __name__ == "__main__":
    unittest.main()
