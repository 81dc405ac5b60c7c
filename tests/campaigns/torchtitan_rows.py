"""Step times that torchtitan has published for 64 A100, beside those of its own train.py, recorded
as it is and priced, and of scenarios of the same runs; and the kernels of a layer.

It wants PyTorch 2.6 and tiktoken (Debian 13: python3-torch, python3-tiktoken), git and the network,
so CI does not run it. SHARDSIM_PYTHON names the Python that has them, if `python3` is another.

usage: torchtitan_rows.py SHARDSIM FOLDER [--norm NAME] [--set FIELD=VALUE] [--keep] [LINE...]
       FOLDER: for the sources and the records; LINE: of the table, from 2 to 9
"""

import argparse
import collections
import csv
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/torch"), str(ROOT / "tests/campaigns/torch_programs")]

import tokenizer  # noqa: E402
from recordings import Record  # noqa: E402

TABLE = ROOT / "tests/validation/torchtitan_throughput_and_memory.csv"
# The last commit that has Llama 2; it fits PyTorch 2.6.
COMMIT = "6a6f755d2d7fd65ea6013324ae130306a0761e2c"
SOURCES = f"torchtitan-{COMMIT[:7]}"
# Flavor, and the norm in torchtitan's configurations when the times appeared (157a12c, April 2024).
MODELS = {
    "Llama-3-8B": ("llama3", "8B", "fused_rmsnorm"),
    "Llama-3-70B": ("llama3", "70B", "rmsnorm"),
    "Llama-2-13B": ("llama2", "13B", "fused_rmsnorm"),
    "Llama-2-70B": ("llama2", "70B", "rmsnorm"),
}
RECOMPUTED = {
    "none": ["none"],
    "full": ["full"],
    "selective per op": ["selective", "--activation_checkpoint.selective_ac_option", "op"],
    "selective every layer option": ["selective", "--activation_checkpoint.selective_ac_option",
                                     "2"],
}
# What the host takes in the software row of the scenarios.
HOST = ["--set", "system.host_us_per_kernel=10", "--set", "system.host_us_per_call=10"]
LAYER = re.compile(r"layers\.(\d+)\.?(.*)")
PHASES = ("forward", "recomputation", "backward")
STEP = 2  # Of a recording, the last of three.


def clone(folder):
    def git(*words, check=True):
        return subprocess.run(["git", "-C", folder, *words], check=check).returncode

    if not (folder / ".git").is_dir():
        subprocess.run(["git", "clone", "--quiet", "https://github.com/pytorch/torchtitan", folder],
                       check=True)
    if git("checkout", "--quiet", COMMIT, check=False) != 0:
        git("fetch", "--quiet")
        git("checkout", "--quiet", COMMIT)


def words_of(row, norm, folder):
    """Those of train.py."""
    name, flavor, published_norm = MODELS[row["model"]]
    return ["--job.config_file", folder / SOURCES / f"train_configs/{name}_{flavor.lower()}.toml",
            "--job.dump_folder", folder / "outputs",
            "--model.tokenizer_path", folder / "tokenizer.model",
            "--model.norm_type", norm or published_norm,
            "--training.tensor_parallel_degree", row["tp"],
            "--training.seq_len", row["seq_len_tokens"],
            "--training.batch_size", row["local_batch_seqs"],
            "--activation_checkpoint.mode", *RECOMPUTED[row["activation_checkpointing"]]]


def said_by(*words):
    """The JSON that a command prints."""
    folder = ROOT / "tests/campaigns/torch_programs"
    # DeepSpeed takes Triton's place for the package, so only these programs get it.
    stand_ins = f"{folder / 'stand_ins'}:{folder / 'kernel_stand_ins'}"
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False,
                          env=os.environ | {"PYTHONPATH": stand_ins})
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def priced(row, out, options, folder):
    """What the replay of a row's record says. All ranks do the same, so one is recorded."""
    machine = ["--system", "dgx-a100", *HOST]
    machine += [word for field in options.set for word in ("--set", field)]
    if options.keep and out.is_dir():
        return said_by(options.command, "replay", out, *machine, "--json")
    return said_by(options.command, "torch", "--world", row["gpus"], "--ranks", "0", *machine, "-q",
                   "--json", "--out", out, folder / SOURCES / "train.py",
                   *words_of(row, options.norm, folder))


def kind_of(module, name, dtype):
    if name in ("_foreach_copy", "split_with_sizes_copy", "_chunk_cat"):
        return "sharding"
    if name == "mm":
        return "products"
    if name.startswith("_scaled_dot_product"):
        return "attention"
    if name == "add" and dtype == "bf16":
        return "sums"  # Of a residual, or of the gradients of all that read a tensor.
    for part, kind in (("norm", "norms"), ("attention", "rotary"), ("feed_forward", "SwiGLU")):
        if part in module:
            return kind
    sys.exit(f"torchtitan_rows: {name} in {module} is of no kind")


def kernels(record):
    """Of one layer, by phase and kind: the mean of all layers."""
    found = collections.Counter()
    layers = set()
    dtypes = [row["dtype"] for row in record.rows("c", "operation", STEP)]
    for (phase, module, name), dtype in zip(record.places(STEP), dtypes):
        match = LAYER.match(module)
        if match:
            layers.add(match[1])
            found[phase, kind_of(match[2], name, dtype)] += 1
    return {key: count / len(layers) for key, count in found.items()}


def scenarios(command):
    """Predicted seconds by line of the table; those that validation cannot say are not there."""
    said = said_by(command, "validate", "torchtitan", "--folder", TABLE.parent, "--json")
    return {row["line"]: row["step_time_s"]["predicted"] for row in said["tables"][0]["rows"]
            if "step_time_s" in row}


def print_kernels(counts):
    kinds = ["products", "attention", "norms", "rotary", "SwiGLU", "sums", "sharding"]
    print("\n| line | kernels of a layer | " + " | ".join(kinds) + " |")
    print("|---|---|" + "---:|" * len(kinds))
    for line, found in counts.items():
        for phase in PHASES:
            if any(key[0] == phase for key in found):
                cells = (f"{found.get((phase, kind), 0):.3g}" for kind in kinds)
                print(f"| {line} | {phase} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--norm", help="torchtitan's norm_type in all rows")
    parser.add_argument("--set", action="append", default=[], help="a field of the machine")
    parser.add_argument("--keep", action="store_true", help="price the records that are there")
    parser.add_argument("lines", nargs="*", type=int)
    options = parser.parse_intermixed_args()
    folder = options.folder.resolve()
    clone(folder / SOURCES)
    tokenizer.write(folder / "tokenizer.model")
    said = scenarios(options.command)
    counts = {}
    print("| line | model | recomputed | batch | measured s | recorded s | | scenario s | | GiB |\n"
          "|---|---|---|---:|---:|---:|---:|---:|---:|---:|")
    with open(TABLE, encoding="utf-8") as file:
        rows = [(line, row) for line, row in enumerate(csv.DictReader(file), 2)
                if not options.lines or line in options.lines]
    for line, row in rows:
        tokens = int(row["local_batch_seqs"]) * int(row["seq_len_tokens"])
        measured = tokens / float(row["tokens_per_s_per_gpu"])
        out = folder / f"line-{line}{options.norm or ''}"
        replayed = priced(row, out, options, folder)
        cells = []
        for seconds in (replayed["step_time_ps"] / 1e12, said.get(line)):
            cells += ([f"{seconds:.2f}", f"{100 * (seconds / measured - 1):+.1f} %"]
                      if seconds else ["", ""])
        print(f"| {line} | {row['model']} | {row['activation_checkpointing']} | "
              f"{row['local_batch_seqs']} | {measured:.2f} | " + " | ".join(cells)
              + f" | {replayed['memory_peak_bytes'] / 2**30:.1f} |", flush=True)
        counts[line] = kernels(Record(out / "rank-0.jsonl"))
    print_kernels(counts)


if __name__ == "__main__":
    main()
