#!/usr/bin/env python3
"""Writes the tables of docs/guide/accuracy.md anew, from the report of `shardsim validate --json`:

    build/sim/command/shardsim validate --json --check-band sim/run/band/measured_errors.json |
        python3 tests/validation/accuracy_tables.py docs/guide/accuracy.md

The option makes it predict without a framework, too.

Each table stands between its own pair of comments, `<!-- name -->` and `<!-- end of name -->`."""

import json
import re
import sys

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


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    report = json.load(sys.stdin)
    with open(sys.argv[1], encoding="utf-8") as file:
        page = file.read()
    for name, make in (("errors", errors), ("one constant", one_constant), ("bands", bands), ("groups", groups)):
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        if page.count(begin) != 1 or page.count(end) != 1:
            sys.exit(f"{sys.argv[1]} has no comments {begin.strip()} and {end.strip()}")
        before, rest = page.split(begin)
        page = before + begin + "\n" + "\n".join(make(report)) + "\n\n" + end + rest.split(end)[1]
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(page)


if __name__ == "__main__":
    main()
