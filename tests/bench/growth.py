#!/usr/bin/env python3
"""What a plan costs as its number of ranks grows: a table, and a plot if asked for one.

usage: growth.py SHARDSIM [--fold off|auto] [--largest RANKS] [--svg FILE]

Llama 3 70B at tp 8 and pp 8 with 16 microbatches: each rank does the same whatever the number of
replicas, so a cost that grows linearly is the same per rank and operation on every line. Times are
the processor's, not the clock's; other work on the machine still shows in them, through the caches.
"""

import argparse
import json
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


def cost_of(shardsim, ranks, fold):
    """(seconds of processor time, resident bytes, calls of ranks) of one plan."""
    plan = json.loads(json.dumps(PLAN))
    plan["system"]["nodes"] = ranks // 8
    plan["training"]["global_batch_size"] = 16 * (ranks // FEWEST)
    plan["execution"]["fold"] = fold
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


def plot(rows):
    """Seconds over ranks, both in powers of two, and the line of linear growth through the last."""
    import math
    last = rows[-1]
    step = 90

    def point(ranks, seconds):
        x = 80 + step * math.log2(ranks / FEWEST)
        y = 60 + step / 2 * math.log2(last[1] / seconds)
        return f"{x:.1f},{y:.1f}"

    width = 160 + step * math.log2(last[0] / FEWEST)
    height = 160 + step / 2 * math.log2(last[0] / FEWEST)
    linear = " ".join(point(ranks, last[1] * ranks / last[0]) for ranks, *_ in rows)
    marks = "".join(f'<circle cx="{p[0]}" cy="{p[1]}" r="4"/><text x="{p[0]}" y="{float(p[1]) - 10}" '
                    f'text-anchor="middle">{ranks}: {seconds:.2f} s</text>'
                    for ranks, seconds, *_ in rows
                    for p in [point(ranks, seconds).split(",")])
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'font-family="sans-serif" font-size="12"><polyline points="{linear}" fill="none" '
            f'stroke="gray"/>{marks}<text x="80" y="20">ranks: seconds of processor time; the line is '
            f'linear growth</text></svg>\n')


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("shardsim")
    parser.add_argument("--fold", default="off", choices=["off", "auto"])
    parser.add_argument("--largest", type=int, default=16384)
    parser.add_argument("--svg", type=pathlib.Path)
    arguments = parser.parse_args()
    rows = []
    print("| ranks | calls of ranks | seconds | ns per call | MB | KB per rank |\n|---|---|---|---|---|---|")
    ranks = FEWEST
    while ranks <= arguments.largest:
        seconds, resident, calls = cost_of(os.path.abspath(arguments.shardsim), ranks, arguments.fold)
        rows.append((ranks, seconds, resident, calls))
        print(f"| {ranks:,} | {calls:,} | {seconds:.2f} | {1e9 * seconds / calls:.0f} | "
              f"{resident / 1e6:.0f} | {resident / 1e3 / ranks:.0f} |", flush=True)
        ranks *= 4
    if arguments.svg:
        arguments.svg.write_text(plot(rows))


if __name__ == "__main__":
    main()
