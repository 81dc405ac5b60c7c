#!/usr/bin/env python3
"""Writes docs/guide/gallery.md: the best layouts of 12 models on 3 machines, each found by a plan of the seconds
that are given. Takes about 12 times as long. Outside CI: a search that is stopped depends on the machine.

usage: gallery.py SHARDSIM PAGE [SECONDS]
"""

import json
import pathlib
import subprocess
import sys
import time

# Each model on a number of GPUs that its size suits; NVL72 racks have 72.
MODELS = (("llama3-8b", 64), ("olmo-2-32b", 128), ("qwen3-32b", 128), ("llama3-70b", 256), ("gpt-oss-120b", 256),
          ("mixtral-8x22b", 256), ("qwen3-235b-a22b", 256), ("glm-4.5", 512), ("llama3-405b", 1024),
          ("deepseek-v3", 1024), ("qwen3-next-80b-a3b", 128), ("nemotron-4-340b", 1024))
MACHINES = ("h100", "b200", "gb200")
PER_RACK = 72


def counts(gpus):
    """The number itself, and the next one that fills racks."""
    racks = -(-gpus // PER_RACK) * PER_RACK
    return {"h100": gpus, "b200": gpus, "gb200": racks}


def plan(shardsim, model, gpu, gpus, seconds, batch):
    command = [shardsim, "plan", model, "--gpus", str(gpus), "--gpu", gpu, "--tokens", "1T", "--time-limit", str(seconds),
               "--global-batch-size", str(batch), "--top", "1", "--front-within", "1", "--json", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def batch_of(shardsim, model, gpus):
    """The default of the largest machine, rounded to what racks divide, too: 9 x 2^k sequences."""
    report = plan(shardsim, model, "h100", gpus, 1, 4 * gpus)
    tokens = min(max(4096 * gpus, 2**20), 2**24)
    batch = 9
    while batch * report["seq_len"] < tokens:
        batch *= 2
    return batch


def row(report, machine, gpus):
    if not report["ranked"]:
        return f"| | {gpus:,} {machine.upper()} | none found | | | | | |"
    best = report["ranked"][0]
    days, metrics = best["days"], best["metrics"]
    band = f"{days['low']:.1f} to {days['high']:.1f}" if days["low"] < days["high"] else "no band"
    gap = "proven" if report["gap"] == 0 and best["leaves_margin"] else f"{100 * (report['gap'] or 0):.1f} %"
    memory = metrics["memory.device_bytes.max"] / 2**30
    return (f"| | {gpus:,} {machine.upper()} | `{best['layout']}` | {days['centre']:.1f} ({band}) | "
            f"{metrics['mfu'] * 100:.1f} % | {metrics['tokens_per_s_per_gpu']:,.0f} | {memory:.0f} GiB | {gap} |")


def main():
    shardsim, page = sys.argv[1], pathlib.Path(sys.argv[2])
    seconds = int(sys.argv[3]) if len(sys.argv) > 3 else 60
    begin = time.monotonic()
    lines = []
    for model, gpus in MODELS:
        batch = batch_of(shardsim, model, gpus)
        lines.append(f"| **{model}**, batch {batch:,} | | | | | | | |")
        for machine in MACHINES:
            number = counts(gpus)[machine]
            lines.append(row(plan(shardsim, model, machine, number, seconds, batch), machine, number))
            print(lines[-1], file=sys.stderr, flush=True)
    minutes = (time.monotonic() - begin) / 60
    page.write_text(f"""# Gallery: twelve models on three machines

The best layout of each pair that a search of {seconds} s found, bf16, and the days that 10^12 tokens take on it. Days are best estimates with their band,
from [measured runs](accuracy.md) like the layout; MFU and tokens per second are the model's. **Left** is by how much the best possible layout is faster at
most: a search that has proven its layout says so. Downtime is not included.

| Model | Machine | Layout | Days (band) | MFU | Tokens/s/GPU | Memory | Left |
|---|---|---|---|---|---|---|---|
""" + "\n".join(lines) + f"""

Made by `tests/campaigns/gallery.py SHARDSIM docs/guide/gallery.md {seconds}` in {minutes:.0f} minutes on two cores. What public runs measured of such models is on the page
of [accuracy](accuracy.md).
""", encoding="utf-8")


if __name__ == "__main__":
    main()
