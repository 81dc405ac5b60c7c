#!/usr/bin/env python3
"""Writes docs/guide/gallery.md: the best layouts of 12 models on 3 machines, each found by a plan of the seconds
that are given, and the published runs of such a model on such a GPU beside the prediction of that very run. Takes
some 36 times as long, and a minute for the predictions. Outside CI: a search that is stopped depends on the machine.

usage: gallery.py SHARDSIM PAGE [SECONDS]
"""

import csv
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

TABLES = pathlib.Path(__file__).resolve().parents[1] / "validation"
# The name that `validate` gives a machine's device.
DEVICES = {"h100-sxm": "h100", "b200-sxm": "b200", "gb200": "gb200"}
PRECISIONS = {"bf16": "bf16", "fp8_e4m3": "fp8", "fp4_e2m1": "nvfp4"}
# Columns of the published tables, and the words of a layout.
LAYOUT_COLUMNS = (("tp", "tp"), ("cp", "cp"), ("pp", "pp"), ("ep", "ep"), ("vp", "vpp"))


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


def presets_of(mapping):
    """The column that names a table's model, and the presets of its words."""
    field = mapping.get("fields", {}).get("model.preset", {})
    words = {word: name for word, name in field.get("words", {}).items() if isinstance(name, str)}
    return field.get("column"), words


def tables_with(models):
    """The mappings of the tables that have one of the models."""
    found = {}
    for path in sorted(set(TABLES.glob("*.json")) - {TABLES / "ratchet.json"}):
        mapping = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(mapping, dict) and set(presets_of(mapping)[1].values()) & set(models):
            found[path.stem] = mapping
    return found


def layout_of(cells):
    degrees = [name + cells[column] for column, name in LAYOUT_COLUMNS if cells.get(column, "") not in ("", "0", "1")]
    if cells.get("fsdp", "") not in ("", "0", "1"):
        degrees.append("zero3")
    return " ".join(degrees + ["mb" + cells["micro_batch_seqs"]])


def points_of(table, mapping, rows):
    """The pre-training runs of a table, each as the dictionary of a line. `rows`: the table's, as csv reads them."""
    column, presets = presets_of(mapping)
    points = []
    for run in table["rows"]:
        cells = rows[run["line"] - 2]
        device = DEVICES.get(run.get("device"))  # A run that cannot be predicted has none.
        if device is None or cells["confirmed"] != "yes" or cells.get("task", "Pre-Training") != "Pre-Training":
            continue
        traits, step = run["traits"], run["step_time_s"]
        tokens = int(cells["global_batch_seqs"]) * int(cells["seq_len_tokens"]) / run["ranks"]
        points.append({"model": presets.get(cells[column]), "machine": device, "gpus": run["ranks"],
                       "precision": PRECISIONS[traits["precision"]], "batch": int(cells["global_batch_seqs"]),
                       "seq_len": int(cells["seq_len_tokens"]), "layout": layout_of(cells), "tokens": tokens,
                       "measured_s": step["measured"], "predicted_s": step["predicted"], "error": step["error"],
                       "source": run["source"]})
    return points


def measured_points(shardsim):
    """All published runs of the models on the machines."""
    mappings = tables_with([model for model, _ in MODELS])
    done = subprocess.run([shardsim, "validate", *mappings, "--folder", str(TABLES), "--json"], capture_output=True,
                          text=True, check=True)
    points = []
    for table in json.loads(done.stdout)["tables"]:
        mapping = mappings[table["name"]]
        with open(TABLES / mapping["table"], encoding="utf-8", newline="") as file:
            points += points_of(table, mapping, list(csv.DictReader(file)))
    return points


def nearest(points, model, machine, gpus):
    """The run that is most like the cell: bf16 before other precisions, then the nearest number of GPUs, then the
    first of its table, which has the newest release first. None without a run."""
    own = [point for point in points if point["model"] == model and point["machine"] == machine]

    def distance(point):
        return max(point["gpus"] / gpus, gpus / point["gpus"])
    return min(own, key=lambda point: (point["precision"] != "bf16", distance(point)), default=None)


def point_line(point):
    measured, predicted = point["tokens"] / point["measured_s"], point["tokens"] / point["predicted_s"]
    return (f"| {point['model']} | {point['gpus']:,} {point['machine'].upper()}, {point['precision']}, "
            f"{point['seq_len']:,} tokens, batch {point['batch']:,} | `{point['layout']}` | "
            f"{point['measured_s']:.2f} s | {point['predicted_s']:.2f} s ({100 * point['error']:+.1f} %) | "
            f"{measured:,.0f} | {predicted:,.0f} | {point['source']} |")


def measured_section(points):
    found = [nearest(points, model, machine, counts(gpus)[machine]) for model, gpus in MODELS for machine in MACHINES]
    lines = [point_line(point) for point in found if point]
    return f"""
## Measured runs

{len(lines)} of the {len(found)} pairs have a published run of the same model on the same GPU among the tables that [`shardsim validate`](accuracy.md) reads. The others
have none, so nothing is shown for them. The layout, the batch and often the precision are those of the run, not of the row above. **Predicted** is that very
run by the model, before the correction that makes a best estimate of it; such runs are also what bands are made of. Of several runs the one in bf16, then
the one with the nearest number of GPUs is shown.

| Model | Run | Layout | Step measured | Predicted | Tokens/s/GPU measured | Predicted | Source |
|---|---|---|---|---|---|---|---|
""" + "\n".join(lines) + "\n"


def main():
    shardsim, page = sys.argv[1], pathlib.Path(sys.argv[2])
    seconds = int(sys.argv[3]) if len(sys.argv) > 3 else 60
    begin = time.monotonic()
    points = measured_points(shardsim)
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
""" + "\n".join(lines) + "\n" + measured_section(points) + f"""
Made by `tests/campaigns/gallery.py SHARDSIM docs/guide/gallery.md {seconds}` in {minutes:.0f} minutes on two cores. What public runs measured of other models is on the page
of [accuracy](accuracy.md).
""", encoding="utf-8")


if __name__ == "__main__":
    main()
