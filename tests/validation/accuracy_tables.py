#!/usr/bin/env python3
"""Writes the tables of docs/guide/accuracy.md and its plot (accuracy.svg beside it) anew, from the report of
`shardsim validate --json`:

    build/sim/command/shardsim validate --json --write-band sim/run/band/measured_errors.json |
        python3 -B tests/validation/accuracy_tables.py docs/guide/accuracy.md

The option makes it predict without a framework, too.

--check fails if a table or the plot is another, --shardsim EXE runs it instead of reading its report. Each table stands
between its own pair of comments, `<!-- name -->` and `<!-- end of name -->`. The table of parts is part_errors.py's."""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import accuracy_plot

QUANTITIES = {"step_time_s": "step time", "peak_memory_bytes": "peak memory"}


def percent(share, sign=""):
    return f"{100 * share:{sign}.1f} %"


def place(worst):
    """`line 3 (-43.3 %)` of `line 3: date ... (-43.3 %)`, the table's name before it if it has one."""
    name, line, error = re.fullmatch(r"(?:(\S+) )?(line \d+):.*(\([^()]*\))", worst).groups()
    return f"`{name}` {line} {error}" if name else f"{line} {error}"


def error_row(name, quantity, figures):
    rank = figures["rank_correlation"]
    return (f"| {name} | {QUANTITIES[quantity]} | {figures['rows']} | {percent(figures['mean_absolute_error'])} "
            f"| {percent(figures['median_absolute_error'])} | {percent(figures['percentile_90_absolute_error'])} "
            f"| {percent(figures['bias'], '+')} | {'-' if rank is None else format(rank, '.3f')} "
            f"| {place(figures['worst_row'])} |")


def errors(report):
    lines = ["| table | quantity | rows | mean abs. error | median | 90th percentile | bias | rank correlation | worst row |",
             "|---|---|---:|---:|---:|---:|---:|---:|---|"]
    named = [(f"`{table['name']}`", table["headline"]) for table in report["tables"]]
    for name, headline in named + [("**all**", report["overall"])]:
        lines += [error_row(name, quantity, headline[quantity]) for quantity in QUANTITIES if quantity in headline]
    return lines


def one_constant(report):
    lines = ["| table | rows | share of the peak | one constant | predictions |", "|---|---:|---|---:|---:|"]
    for table in report["tables"]:
        found = table["one_constant"]
        if not found:
            continue
        shares = ", ".join(f"{generation} {percent(each['share_of_peak'])}"
                           for generation, each in found["constants"].items())
        lines.append(f"| `{table['name']}` | {found['rows']} | {shares} | {percent(found['mean_absolute_error'])} "
                     f"| {percent(found['mean_absolute_error_of_predictions'])} |")
    return lines


BANDS = (("error_bands", "with a framework"), ("error_bands_without_framework", "without one"))


def bands(report):
    lines = ["| bands | quantity | rows | tables | inside, without their table | of rows | but the largest table's | mean of tables "
             "| error of centres | of the model |",
             "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for key, name in BANDS:
        for quantity, words in QUANTITIES.items():
            found = report[key].get(quantity)
            if found is None:
                continue
            lines.append(f"| {name} | {words} | {found['rows']} | {len(found['tables'])} "
                         f"| {found['inside_without_own_table']} | {percent(found['inside_without_own_table'] / found['rows'])} "
                         f"| {percent(found['share_without_own_table_but_largest'])} "
                         f"| {percent(found['mean_share_without_own_table'])} "
                         f"| {percent(found['mean_error_of_centre_without_own_table'])} "
                         f"| {percent(found['mean_error_of_model'])} |")
    return lines


def band_of(group):
    if not group["band_of"]:
        return "of its parts"
    return "its own" if group["band_of"] == group["group"] else group["band_of"]


def groups(report):
    lines = ["| bands | quantity | group | rows | tables | mean of tables | of rows | width | bias | band |",
             "|---|---|---|---:|---:|---:|---:|---:|---:|---|"]
    for key, name in BANDS:
        for quantity, words in QUANTITIES.items():
            for group in report[key].get(quantity, {"groups": []})["groups"]:
                lines.append(f"| {name} | {words} | {group['group']} | {group['rows']} | {group['tables']} "
                             f"| {percent(group['mean_share_without_own_table'])} "
                             f"| {percent(group['inside_without_own_table'] / group['rows'])} "
                             f"| {group['width']:.2f} | {percent(group['bias'], '+')} | {band_of(group)} |")
    return lines


SHOWN_TRAITS = 2
TRAITS = {"framework": "framework", "machine": "machine", "precision": "precision", "gpus": "GPUs", "tp": "tp", "pp": "pp",
          "micro_batch_size": "microbatch", "tokens_per_gpu": "tokens per GPU", "sequence_length": "sequence length",
          "layers": "layers", "hidden_size": "hidden size"}


def by_trait(report):
    lines = ["| rows by | step time: mean abs. error (bias in percent, rows) |", "|---|---|"]
    for trait, groups in report["by"].items():
        cells = [f"{group['value']}: {percent(group['mean_absolute_error'])} ({100 * group['bias']:+.1f}, {group['rows']})"
                 for group in groups]
        lines.append(f"| {TRAITS[trait]} | {'; '.join(cells)} |")
    return lines


def largest(report):
    parts = ("compute_s", "exposed_comm_s", "host_s", "bubble_s")
    lines = ["| table | line | error | measured | predicted | missing | compute | exposed comm. | host | bubble |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for row in report["largest_residuals"]:
        seconds = [row["measured"], row["predicted"], row["missing"], *(row["parts"][part] for part in parts)]
        lines.append(f"| `{row['table']}` | {row['line']} | {percent(row['error'], '+')} | "
                     + " | ".join(f"{value:.2f}" for value in seconds) + " |")
    return lines


def varies_with(report):
    """The traits that explain most, none that explains nothing."""
    lines = ["| table | errors vary with | share | bias in percent (rows) |", "|---|---|---:|---|"]
    for table in report["tables"]:
        for found in table["varies_with"][:SHOWN_TRAITS]:
            if (found["explained"] or 0.0) <= 0.0:
                continue
            cells = [f"{group['value']}: {100 * group['bias']:+.1f} ({group['rows']})" for group in found["groups"]]
            lines.append(f"| `{table['name']}` | {TRAITS[found['by']]} | {100 * found['explained']:.0f} % "
                         f"| {'; '.join(cells)} |")
    return lines


MAKERS = {"errors": errors, "by": by_trait, "largest": largest, "varies": varies_with, "one constant": one_constant,
          "bands": bands, "groups": groups}


def with_table(page, name, lines):
    """`page` with other lines between the comments of a table."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    if page.count(begin) != 1 or page.count(end) != 1:
        sys.exit(f"the page has no comments {begin.strip()} and {end.strip()}")
    before, rest = page.split(begin)
    return before + begin + "\n" + "\n".join(lines) + "\n\n" + end + rest.split(end)[1]


def report_of(shardsim):
    if shardsim is None:
        return json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder:
        command = [shardsim, "validate", "--json", "--write-band", str(pathlib.Path(folder, "errors.json"))]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def write_or_check(path, now, is_check):
    """Exits if the file is to be checked and is another."""
    if is_check and path.read_text(encoding="utf-8") != now:
        sys.exit(f"{path} is not today's: tests/validation/accuracy_tables.py and part_errors.py write it anew")
    if not is_check:
        path.write_text(now, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--shardsim")
    arguments = parser.parse_args()
    report = report_of(arguments.shardsim)
    page = arguments.page.read_text(encoding="utf-8")
    for name, make in MAKERS.items():
        page = with_table(page, name, make(report))
    write_or_check(arguments.page, page, arguments.check)
    write_or_check(arguments.page.with_suffix(".svg"), accuracy_plot.plot(report), arguments.check)


if __name__ == "__main__":
    main()
