"""What one layer makes of kernels, traffic, memory and collectives, in programs that PyTorch trains
by its own strategies, and in scenarios of the same model and strategy with a software row: the
difference between a model with three layers and one with two.

usage: own_kernels.py [--names] [STRATEGY ...]
"""

import argparse
import collections
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from own_strategies import STEP, Program  # noqa: E402
from step_times import SOFTWARE, alone, both_programs, by_kind  # noqa: E402

STYLES = ("ddp", "fsdp2_units", "tp", "tp_sp")
COLUMNS = ("products", "attention", "others", "moved MiB", "host operations", "kept MiB",
           "collectives", "gathers", "gathered MiB")
MIB = 2 ** 20


def most_activations(steps, allocations):
    """Bytes, at the moment when a step holds most of them."""
    live, most = {}, 0
    for word in steps:
        if word[0] == "a":
            row, slot = word[1:].split(":")
            live[slot] = allocations[int(row)]
        elif word[0] == "r":
            live.pop(word[1:], None)  # What stood before the step.
        else:
            continue
        most = max(most, sum(row["bytes"] for row in live.values()
                             if row["category"] == "activations" and not row.get("on_host")))
    return most


def counts(operations, calls, activations, folder, options):
    found = collections.Counter()
    for kind, rows in by_kind(operations).items():
        said = alone(rows, folder, options)
        found[kind] = said["kernels"]
        found["moved MiB"] += said["moved_bytes"] / MIB
        found["host operations"] += said["kernels"]
    gathers = [bytes_of for kind, bytes_of, *_ in calls if kind == "all_gather"]
    found += collections.Counter({"collectives": len(calls), "gathers": len(gathers),
                                  "gathered MiB": sum(gathers) / MIB,
                                  "host operations": len(calls), "kept MiB": activations / MIB})
    return found


def both_counts(style, layers, folder, names):
    """(ours, PyTorch's), each with the numbers of its operations' names."""
    records, path = both_programs(f"8b/{style}", folder, layers)
    record, own = records[0], Program(path)
    rows = record.rows("c", "operation", STEP), own.rows(0, "c", "operation")
    names += [collections.Counter(row["name"] for row in side) for side in rows]
    theirs = counts(rows[0], record.calls(STEP),
                    most_activations(record.of_step(STEP), record.tables["allocation"]), folder, [])
    ours = counts(rows[1], own.calls(0),
                  most_activations(own.of_rank[0][1], own.tables["allocation"]), folder,
                  ["--set", SOFTWARE])
    return ours, theirs


def difference(more, less):
    return {key: more[key] - less[key] for key in more.keys() | less.keys()}


def printed(value):
    return f"{value:.0f}" if abs(value - round(value)) < 1e-9 else f"{value:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", action="store_true",
                        help="list the operations of a layer on standard error")
    parser.add_argument("styles", nargs="*", default=STYLES)
    options = parser.parse_args()
    print("| a layer of | | " + " | ".join(COLUMNS) + " |")
    print("|---|---|" + "---:|" * len(COLUMNS))
    for style in options.styles:
        sizes, names = [], []
        for layers in (2, 3):
            with tempfile.TemporaryDirectory() as folder:
                sizes.append(both_counts(style, layers, pathlib.Path(folder), names))
        for side, less, more in zip(("here", "PyTorch"), *sizes):
            layer = difference(more, less)
            print(f"| {style} | {side} | "
                  + " | ".join(printed(layer.get(column, 0)) for column in COLUMNS) + " |",
                  flush=True)
        if options.names:
            for side, less, more in zip(("PyTorch", "here"), names[:2], names[2:]):
                print(f"  {side}: " + ", ".join(
                    f"{count} {name}" for name, count in
                    sorted(difference(more, less).items(), key=lambda item: -item[1]) if count),
                    file=sys.stderr)


if __name__ == "__main__":
    main()
