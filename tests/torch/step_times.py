"""The step time of programs that PyTorch trains by its own strategies, and of scenarios of the same
model and strategy on the same machine, with what each step goes to.

usage: step_times.py [--host US] [--kernels] [small/STRATEGY|8b/STRATEGY ...]
"""

import argparse
import collections
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from own_strategies import MODEL, STEP, STRATEGIES, Program, own_program, recorded  # noqa: E402
from recordings import replay  # noqa: E402

# Llama 3 8B but for grouped queries, which the script does not have.
MODEL_8B = {"family": "llama", "num_layers": 32, "hidden_size": 4096, "ffn_hidden_size": 14336,
            "num_attention_heads": 32, "vocab_size": 128256, "seq_len": 8192}
# Model, sequences of a rank, and ranks where they are others than those of the comparison.
SIZES = {"small": (MODEL, 4, {}),
         "8b": (MODEL_8B, 1, {"fsdp2": 64, "fsdp2_units": 64, "fsdp2_no_reshard": 64, "hsdp": 64,
                              "ddp": 64, "tp": 8, "tp_sp": 8})}
ROWS = [f"small/{name}" for name in STRATEGIES] + [
    f"8b/{name}" for name in ("ddp", "fsdp2_units", "hsdp", "tp", "tp_sp", "1f1b",
                              "interleaved_1f1b")]
SOFTWARE = "system.software=torchtitan-2024"  # Kernel by kernel, as the script.


def by_kind(operations):
    found = {"products": [], "attention": [], "others": []}
    for row in operations:
        family = row.get("family", "")
        is_product = family in ("matrix_product", "weight_gradient")
        found["products" if is_product else "attention" if family.startswith("attention")
              else "others"].append(row)
    return found


def alone(rows, folder, options):
    """What `replay` says of kernels one after another, with nothing beside them."""
    lines = [{"shardsim_program": 1, "name": "kernels", "ranks": 1}]
    lines += [{"operation": row} for row in rows]
    lines += [{"program": {"rank": 0, "ranks": [[0, 1]]}},
              {"steps": " ".join(f"c{i}" for i in range(len(rows)))}]
    path = folder / "kernels.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return replayed(path, [*options, "--set", "system.host_us_per_kernel=0"])["kernels"]


def seconds_alone(rows, folder, options):
    return alone(rows, folder, options)["time_ps"] / 1e12


def replayed(path, options):
    done = replay(path, "--system", "dgx-h100", *options, "--json")
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def parts(path, operations_of, folder, options, shows_names):
    """What a step goes to on the rank that ends last, in seconds."""
    said = replayed(path, options)
    operations = operations_of(said["last_rank"])
    of_kind = by_kind(operations)
    found = {kind: seconds_alone(rows, folder, options) for kind, rows in of_kind.items()}
    if shows_names:
        by_name = collections.defaultdict(list)
        for row in of_kind["others"]:
            by_name[row["name"]].append(row)
        seconds = {name: seconds_alone(rows, folder, options) for name, rows in by_name.items()}
        for name, each in sorted(seconds.items(), key=lambda item: -item[1]):
            print(f"  {printed(each):>9} ms in {len(by_name[name]):5} {name}", file=sys.stderr)
    found["slower beside"] = said["compute_ps"] / 1e12 - sum(found.values())
    found |= {"host": said["host_ps"] / 1e12, "exposed": said["exposed_comm_ps"] / 1e12,
              "waiting": said["bubble_ps"] / 1e12}
    return said["step_time_ps"] / 1e12, found, said["memory_peak_bytes"]


def both_programs(row, folder, num_layers=None):
    """(PyTorch's records by rank, the program of our scenario) of a row."""
    size, name = row.split("/")
    model, batch, ranks = SIZES[size]
    model = model | {"num_layers": num_layers or model["num_layers"]}
    _, words, split, training = STRATEGIES[name]
    world = ranks.get(name, STRATEGIES[name][0])
    if "tp" in split:
        split = split | {"tp": world}
    STRATEGIES[name] = (world, words, split, training)
    if words[0] == "pp":
        batch = 4
    layers = max(model["num_layers"], split.get("pp", 1) * split.get("vpp", 1))
    os.environ["LLAMA_SIZE"] = str(folder / "size.json")
    (folder / "size.json").write_text(json.dumps(model | {"batch": batch}), encoding="utf-8")
    records = {each.header["recorded"]: each for each in recorded(name, folder)}
    data = world // split.get("tp", 1) // split.get("pp", 1)
    per_node = min(world, 8)
    path = own_program(name, folder, model=model | {"num_layers": layers},
                       system={"gpus_per_node": per_node, "nodes": world // per_node,
                               "software": "torchtitan-2024"},
                       training={"global_batch_size": batch * data} | (
                           {} if words[0] == "pp" else {"micro_batch_size": batch}))
    return records, path


def compared(row, host, folder, shows_names):
    """(ours, theirs), as `parts` has them."""
    records, path = both_programs(row, folder)
    # PyTorch's attention on both sides: a record alone does not say whose it is.
    options = ["--set", f"system.host_us_per_kernel={host}", "--set",
               f"system.host_us_per_call={host}", "--set", "system.attention_library=flash2"]
    theirs = parts(next(iter(records.values())).path.parent,
                   lambda rank: records.get(rank, records[0]).rows("c", "operation", STEP),
                   folder, options, shows_names)
    own = Program(path)
    ours = parts(path, lambda rank: own.rows(rank, "c", "operation"), folder,
                 ["--set", SOFTWARE, *options], shows_names)
    return ours, theirs


def printed(seconds):
    return f"{1e3 * seconds:.2f}" if abs(seconds) >= 1e-5 else f"{1e3 * seconds:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="0", help="microseconds of the host for each kernel")
    parser.add_argument("--kernels", action="store_true",
                        help="list the others, PyTorch's first, on standard error")
    parser.add_argument("rows", nargs="*", default=ROWS)
    options = parser.parse_args()
    kinds = ["products", "attention", "others", "slower beside", "host", "exposed", "waiting"]
    print("| program, ms | | step | " + " | ".join(kinds) + " | GiB |")
    print("|---|---|" + "---:|" * (len(kinds) + 2))
    for row in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            both = compared(row, options.host, pathlib.Path(folder), options.kernels)
        for side, (step, found, memory) in zip(("here", "PyTorch"), both):
            print(f"| {row if side == 'here' else f'{100 * (both[0][0] / step - 1):+.1f} %'} | "
                  f"{side} | {printed(step)} | "
                  + " | ".join(printed(found[kind]) for kind in kinds)
                  + f" | {memory / 2**30:.2f} |", flush=True)


if __name__ == "__main__":
    main()
