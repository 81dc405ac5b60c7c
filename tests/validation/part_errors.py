#!/usr/bin/env python3
"""Writes the table of docs/guide/accuracy.md that has the errors of parts of a step beside those of whole steps, by GPU:

    python3 -B tests/validation/part_errors.py build/sim/command/shardsim docs/guide/accuracy.md

Errors of kernels are those that fit_kernels.py prints, of the rows that it holds out (a minute). Those of collectives are
those of collective_errors.py, and whole steps are rows of `shardsim validate --json` (half a minute). --check fails
if the page has another table. All are means of |predicted / measured - 1|."""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

import accuracy_tables
import collective_errors
import fit_kernels

HERE = pathlib.Path(__file__).resolve().parent
# "gemm.csv (confirmed)   a100-sxm   fitted  52 rows  5.92%   held out   13 rows  5.66%"
FIT_LINE = re.compile(r"(?P<what>\S.*?) +(?P<device>\S+) +fitted +(?P<fitted>\d+) rows +\S+ +held out +(?P<held>\d+) rows +"
                      r"(?P<error>[\d.]+)%")
KINDS = (("products", "gemm"), ("attention", "attention"), ("delta rule", "delta_rule"))


def kernel_errors(printed):
    """{(kind, device): ["24.4 % (gemm_xla_grid)"]} of the lines that fit_kernels.py prints."""
    found = collections.defaultdict(list)
    for line in printed.splitlines():
        match = FIT_LINE.fullmatch(line.strip())
        if match is None:
            continue
        kinds = [kind for kind, word in KINDS if word in match["what"]]
        if not kinds:
            sys.exit(f"none of {', '.join(kind for kind, _ in KINDS)}: {line}")
        file, _, label = match["what"].partition(".csv")
        name = label.strip(" ,()") or file
        found[kinds[0], match["device"]].append(f"{float(match['error']):.1f} % ({name})")
    if not found:
        sys.exit("fit_kernels.py prints no errors that this script understands")
    return found


def whole_errors(report):
    """{device: "8.2 % (-1.9, 800 rows)"} of step times of the headline."""
    errors = collections.defaultdict(list)
    for table in report["tables"]:
        for row in table["rows"]:
            if "step_time_s" in row and "apart" not in row:
                errors[row["device"]].append(row["step_time_s"]["error"])
    return {device: f"{100 * sum(map(abs, each)) / len(each):.1f} % ({100 * sum(each) / len(each):+.1f}, {len(each)} rows)"
            for device, each in errors.items()}


def collective_cells(shardsim):
    """{device: "7 %, 9 %, 4 %"}: one for each range of sizes, all operations and ranks together."""
    errors = collections.defaultdict(lambda: collections.defaultdict(list))
    for (gpu, _, _), by_size in collective_errors.errors_by_group(shardsim).items():
        for size, error in by_size.items():
            errors[fit_kernels.GPU_NAMES[gpu]][collective_errors.band_of(size)].append(abs(error))
    return {device: ", ".join(f"{100 * sum(each[name]) / len(each[name]):.0f} %" for name, _, _ in collective_errors.BANDS)
            for device, each in errors.items()}


def part_table(whole, kernels, collectives):
    """The lines of the table: every device that has two of the columns or more."""
    bands = ", ".join(name for name, _, _ in collective_errors.BANDS)
    lines = [f"| GPU | whole steps (bias, rows) | {' | '.join(kind for kind, _ in KINDS)} | collectives of a node: {bands} |",
             "|---|---|" + "---|" * len(KINDS) + "---|"]
    for device in sorted({*whole, *collectives, *(device for _, device in kernels)}):
        cells = [whole.get(device, "-"), *("; ".join(kernels.get((kind, device), [])) or "-" for kind, _ in KINDS),
                 collectives.get(device, "-")]
        if sum(cell != "-" for cell in cells) > 1:
            lines.append(f"| {device} | " + " | ".join(cells) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shardsim")
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    fit = subprocess.run([sys.executable, "-B", HERE / "fit_kernels.py"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         check=True, text=True)
    lines = part_table(whole_errors(accuracy_tables.report_of(arguments.shardsim)), kernel_errors(fit.stdout),
                       collective_cells(arguments.shardsim))
    page = accuracy_tables.with_table(arguments.page.read_text(encoding="utf-8"), "parts", lines)
    accuracy_tables.write_or_check(arguments.page, page, arguments.check)


if __name__ == "__main__":
    main()
