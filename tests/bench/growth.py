#!/usr/bin/env python3
"""The cost of a plan as its number of ranks grows: a table, and a plot if asked for one.

usage: growth.py SHARDSIM [--largest RANKS] [--largest-replayed RANKS] [--largest-folded RANKS]
                 [--svg FILE]

Llama 3 70B at tp 8 and pp 8 with 16 microbatches: each rank does the same whatever the number of
replicas, so a cost that grows linearly is the same per rank and operation on every line. Times are
the processor's, not the clock's; other work on the machine still shows in them, through the caches.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import tempfile

PLAN = {
    "$schema": "scenario.schema.json", "schema_version": 1, "name": "growth",
    "model": {"preset": "llama3-70b"}, "system": {"preset": "dgx-h100", "nodes": 8},
    "parallelism": {"tp": 8, "pp": 8, "sequence_parallel": True, "zero_stage": 1},
    "training": {"global_batch_size": 16, "micro_batch_size": 1, "precision": "bf16",
                 "optimizer": "adamw", "max_grad_norm": 1},
    "execution": {"tensors": "meta"},
}
FEWEST = 64


def cost_of(shardsim, ranks, fold, engine):
    """(seconds of processor time, resident bytes, calls of ranks) of one plan."""
    plan = json.loads(json.dumps(PLAN))
    plan["system"]["nodes"] = ranks // 8
    plan["training"]["global_batch_size"] = 16 * (ranks // FEWEST)
    plan["execution"] |= {"fold": fold, "engine": engine}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as out:
        path = pathlib.Path(folder) / "growth.json"
        path.write_text(json.dumps(plan))
        with subprocess.Popen([shardsim, str(path), "--json"], stdin=subprocess.DEVNULL, stdout=out,
                              stderr=subprocess.DEVNULL) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"the plan of {ranks} ranks ended with {process.returncode}")
        out.seek(0)
        calls = json.load(out)["metrics"]["comm.calls.total"]
    return usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss, calls


def decades(smallest, largest):
    """Powers of ten from the last one below to the first one above."""
    first, last = math.floor(math.log10(smallest)), math.ceil(math.log10(largest))
    return [10.0 ** power for power in range(first, last + 1)]


def plot(series):
    """Seconds over ranks, both axes logarithmic; a grey line through the first series' last point is
    linear growth."""
    points = [row for _, rows in series for row in rows]
    ranks = sorted({row[0] for row in points})
    ticks = decades(min(row[1] for row in points), max(row[1] for row in points))
    width, height, left, top, bottom = 760, 420, 70, 30, 370

    def x_of(number):
        span = math.log(ranks[-1] / ranks[0])
        return left + (width - left - 45) * math.log(number / ranks[0]) / span

    def y_of(seconds):
        span = math.log(ticks[-1] / ticks[0])
        return bottom - (bottom - top) * math.log(seconds / ticks[0]) / span

    def text(x, y, anchor, content, fill="#333"):
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{content}</text>'

    parts = [f'<rect width="{width}" height="{height}" fill="white"/>']
    for number in ranks:
        parts += [f'<path d="M{x_of(number):.1f} {top}V{bottom}" stroke="#eee"/>',
                  text(x_of(number), bottom + 18, "middle", f"{number:,}")]
    for seconds in ticks:
        parts += [f'<path d="M{left} {y_of(seconds):.1f}H{width - 45}" stroke="#eee"/>',
                  text(left - 8, y_of(seconds) + 4, "end", f"{seconds:g} s")]
    parts.append(text(width / 2, height - 12, "middle", "ranks"))
    end = series[0][1][-1]
    begin = next(number for number in ranks if end[1] * number / end[0] >= ticks[0])
    parts.append(f'<path d="M{x_of(begin):.1f} {y_of(end[1] * begin / end[0]):.1f}'
                 f'L{x_of(end[0]):.1f} {y_of(end[1]):.1f}" stroke="#999" stroke-dasharray="5 4"/>')
    for (name, rows), color in zip(series, ("#1f5fa8", "#2e7d32", "#b8530f")):
        parts += [f'<circle cx="{x_of(row[0]):.1f}" cy="{y_of(row[1]):.1f}" r="4" fill="{color}"/>'
                  for row in rows]
        parts.append(text(x_of(rows[-1][0]) - 10, y_of(rows[-1][1]) - 10, "end", name, color))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-family="sans-serif" font-size="13" fill="none">'
            + "\n".join(parts) + "</svg>\n")


def measure(shardsim, fold, engine, largest):
    print(f"\nexecution.fold {fold}, execution.engine {engine}\n\n"
          "| ranks | calls of ranks | seconds | ns per call | MB | KB per rank |\n"
          "|---:|---:|---:|---:|---:|---:|")
    rows = []
    ranks = FEWEST
    while ranks <= largest:
        seconds, resident, calls = cost_of(shardsim, ranks, fold, engine)
        rows.append((ranks, seconds))
        print(f"| {ranks:,} | {calls:,} | {seconds:.2f} | {1e9 * seconds / calls:.0f} | "
              f"{resident / 1e6:.0f} | {resident / 1e3 / ranks:.0f} |", flush=True)
        ranks *= 4
    return rows


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("shardsim", type=pathlib.Path)
    parser.add_argument("--largest", type=int, default=16384, help="with every rank run")
    parser.add_argument("--largest-replayed", type=int, default=65536)
    parser.add_argument("--largest-folded", type=int, default=1 << 20)
    parser.add_argument("--svg", type=pathlib.Path)
    arguments = parser.parse_args()
    shardsim = arguments.shardsim.resolve()
    series = [("every rank runs", measure(shardsim, "off", "run", arguments.largest)),
              ("every rank is replayed",
               measure(shardsim, "off", "replay", arguments.largest_replayed)),
              ("folded", measure(shardsim, "auto", "auto", arguments.largest_folded))]
    if arguments.svg:
        arguments.svg.write_text(plot(series))


if __name__ == "__main__":
    main()
