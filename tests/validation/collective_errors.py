#!/usr/bin/env python3
"""Errors of collectives on one node, as parts of a step: prices of `shardsim collective` against
nccl-tests' times in a table that nothing was fitted to. Prints the table of docs/guide/accuracy.md.

usage: collective_errors.py SHARDSIM [--by-ranks] [--check PAGE]

--check fails if the page has another table, --by-ranks has a row for each number of ranks. Errors are
predicted / measured - 1, and each cell is their mean absolute value and, behind it, their bias.
"""

import argparse
import collections
import csv
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "nccl_one_node_aiconfigurator.csv"
# Racks of GB200 have no preset whose two or four GPUs are a domain of their own.
SYSTEMS = {"A100-80GB-SXM": "dgx-a100", "H100-80GB-SXM": "dgx-h100", "B200-SXM": "dgx-b200"}
MIB = 1 << 20
BANDS = (("below 1 MiB", 0, MIB), ("1 to 32 MiB", MIB, 32 * MIB), ("from 32 MiB on", 32 * MIB, None))


def measured_times(path=TABLE):
    """{(GPU, operation, ranks): {bytes: microseconds}}"""
    times = collections.defaultdict(dict)
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["gpu"] not in SYSTEMS or row["confirmed"] != "yes":
                continue
            key = row["gpu"], row["collective"], int(row["ranks"])
            times[key][int(row["message_bytes"])] = float(row["time_us"])
    if not times:
        raise SystemExit(f"{path} has no row of {', '.join(SYSTEMS)}")
    return times


def predicted_times(shardsim, gpu, operation, ranks, sizes):
    """{bytes: microseconds}; the sizes of the table are powers of two."""
    done = subprocess.run(
        [shardsim, "collective", operation, "--ranks", str(ranks), "--system", SYSTEMS[gpu], "-b",
         str(min(sizes)), "-e", str(max(sizes)), "-f", "2", "-c", "0", "-d", "int8", "--json"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, text=True)
    rows = json.loads(done.stdout)["rows"]
    times = {row["size_bytes"]: (row["out_of_place"] or row["in_place"])["time_us"] for row in rows}
    missing = sorted(set(sizes) - set(times))
    if missing:
        raise SystemExit(f"{operation} on {ranks} ranks has no price for {missing}")
    return times


def cell(errors):
    if not errors:
        return "-"
    mean = 100 * sum(map(abs, errors)) / len(errors)
    bias = 100 * sum(errors) / len(errors)
    return f"{mean:.0f} % ({bias:+.0f})"


def errors_by_group(shardsim):
    """{(GPU, operation, ranks): {bytes: error}}"""
    errors = {}
    for (gpu, operation, ranks), measured in sorted(measured_times().items()):
        predicted = predicted_times(shardsim, gpu, operation, ranks, measured)
        errors[gpu, operation, ranks] = {size: predicted[size] / time - 1 for size, time in measured.items()}
    return errors


def band_of(size):
    return next(name for name, low, high in BANDS if low <= size and (high is None or size < high))


def error_table(shardsim, by_ranks):
    """2, 4 and 8 ranks together, unless `by_ranks`."""
    ranks_head, ranks_rule = (" ranks |", "---:|") if by_ranks else ("", "")
    lines = [f"| GPU | operation |{ranks_head} " + " | ".join(name for name, _, _ in BANDS) + " |",
             f"|---|---|{ranks_rule}" + "---:|" * len(BANDS)]
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for (gpu, operation, ranks), errors in errors_by_group(shardsim).items():
        group = groups[(gpu, operation, str(ranks)) if by_ranks else (gpu, operation)]
        for size, error in errors.items():
            group[band_of(size)].append(error)
    for names, errors in groups.items():
        lines.append("| " + " | ".join([*names, *(cell(errors[name]) for name, _, _ in BANDS)]) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shardsim")
    parser.add_argument("--check", type=pathlib.Path)
    parser.add_argument("--by-ranks", action="store_true")
    arguments = parser.parse_args()
    table = error_table(arguments.shardsim, arguments.by_ranks)
    if arguments.check is None:
        print(table, end="")
    elif table not in arguments.check.read_text(encoding="utf-8"):
        sys.exit(f"{arguments.check} has another table of collectives than today's, which is\n{table}")


if __name__ == "__main__":
    main()
