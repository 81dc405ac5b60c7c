#!/usr/bin/env python3
"""Two builds of the command print the same plans, byte by byte: one plan for each software row, each
preset of a system and each schedule that the schema names.

This is the short form of determinism_matrix.py, which compares every scenario at two levels of
optimization. It runs for every change and shows prices that depend on the compiler.

usage: plan_comparison.py COMMAND OTHER_COMMAND
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import count_results
from determinism_matrix import ROOT, run

# These two use every family of kernels: all axes, norms, rotary, experts, a loss.
DENSE = {
    "model": {"preset": "llama3-8b", "seq_len": 4096},
    "parallelism": {"tp": 2, "sequence_parallel": True, "pp": 2, "dp_shard": "auto", "zero_stage": 1},
    "training": {"global_batch_size": 32, "micro_batch_size": 1, "precision": "bf16"},
}
EXPERTS = {
    "model": {"preset": "mixtral-8x7b", "seq_len": 4096},
    "parallelism": {"ep": 4, "dp_shard": "auto", "zero_stage": 1, "pp": 2},
    "training": {"global_batch_size": 32, "micro_batch_size": 1, "precision": "bf16",
                 "max_grad_norm": 1.0},
}
GPT = {
    "model": {"preset": "gpt2-xl", "seq_len": 1024},
    "parallelism": {"dp_shard": "auto", "zero_stage": 2},
    "training": {"global_batch_size": 128, "micro_batch_size": 4, "precision": "fp16",
                 "hidden_dropout": 0.1, "recompute": "full", "optimizer": "adam"},
}
MODELS = {"dense": DENSE, "experts": EXPERTS, "gpt": GPT}
TWO_CHUNKS = {"interleaved_1f1b", "looped_bfs", "combined_1f1b"}
# These hide traffic of experts.
FOR_EXPERTS = {"combined_1f1b"}
# "file" takes its order from a file, and there is none here.
NOT_PLANNED = {"file"}


def choices(schema, *path):
    """The values that the schema allows for a field."""
    for name in path:
        schema = schema["properties"][name]
        schema = next((form for form in schema.get("anyOf", ()) if "properties" in form), schema)
    return schema["enum"]


def scenario(name, model, preset="dgx-h100", software="none", schedule=None):
    parallelism = dict(model["parallelism"])
    if schedule:
        parallelism["schedule"] = schedule
        # Only a pipeline has a schedule; "none" means no pipeline.
        parallelism["pp"] = 1 if schedule == "none" else 2
        if schedule in TWO_CHUNKS:
            parallelism["vpp"] = 2
    return {"schema_version": 1, "name": name, **model, "parallelism": parallelism,
            "system": {"preset": preset, "nodes": 2, "software": software},
            "execution": {"tensors": "meta", "steps": 1}}


def filling(model, preset):
    """The model with a batch of which each GPU of two nodes has a part, and a type that all of them have."""
    system = json.loads((ROOT / f"scenarios/systems/{preset}.json").read_text(encoding="utf-8"))
    gpus = 2 * system["gpus_per_node"]["value"]
    training = model["training"]
    batch = max(training["global_batch_size"], gpus * training["micro_batch_size"])
    batch += -batch % (gpus * training["micro_batch_size"])
    fp16 = system["device"]["peak_tflops"].get("fp16", 0)
    has_fp16 = (fp16["value"] if isinstance(fp16, dict) else fp16) > 0
    return {**model, "training": {**training, "global_batch_size": batch,
                                  "precision": training["precision"] if has_fp16 else "bf16"}}


def plans(schema, presets):
    """The scenarios that are compared, by name."""
    found = []
    for software in choices(schema, "system", "software"):
        found += [scenario(f"software {software}, {kind}", model, software=software)
                  for kind, model in MODELS.items()]
    for preset in presets:
        found.append(scenario(f"system {preset}", filling(GPT, preset), preset=preset))
    for schedule in choices(schema, "parallelism", "schedule"):
        if schedule not in NOT_PLANNED:
            model = EXPERTS if schedule in FOR_EXPERTS else DENSE
            found.append(scenario(f"schedule {schedule}", model, schedule=schedule))
    return found


def is_plan(result):
    try:
        printed = json.loads(result)
    except json.JSONDecodeError:
        return False
    return isinstance(printed, dict) and bool(printed.get("metrics"))


def problem_of(plan, folder, commands):
    """The problem of one plan, as a sentence; None if both commands print the same."""
    path = pathlib.Path(folder) / (plan["name"].replace(" ", "_").replace(",", "") + ".json")
    path.write_text(json.dumps(plan), encoding="utf-8")
    (code, result), (other_code, other) = (run(command, path, ()) for command in commands)
    # 3 is also a plan, which does not fit.
    if code not in (0, 3):
        return f"{commands[0]} ends with exit code {code}"
    if code != other_code:
        return f"{commands[1]} ends with {other_code}, {commands[0]} with {code}"
    # Exit code 3 is a refusal, too: two equal lists of problems compare nothing.
    if not is_plan(result):
        return f"{commands[0]} prints no plan"
    if result != other:
        return f"the plans differ: {first_difference(json.loads(result), json.loads(other))}"
    return None


def first_difference(one, other, path=""):
    """The first place where two results differ, and its text."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            if one[key] != other[key]:
                return first_difference(one[key], other[key], f"{path}/{key}")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (mine, its) in enumerate(zip(one, other)):
            if mine != its:
                return first_difference(mine, its, f"{path}/{index}")
    return f"{path or '/'} is {one!r} and {other!r}" if one != other else "in their form alone"


def schema_of(command):
    done = subprocess.run([str(command), "schema"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          check=True)
    return json.loads(done.stdout)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    commands = [pathlib.Path(argument).resolve() for argument in sys.argv[1:]]
    presets = sorted(path.stem for path in (ROOT / "scenarios/systems").glob("*.json"))
    wanted = plans(schema_of(commands[0]), presets)
    total = [0, 0, 0]
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for plan, problem in zip(wanted, pool.map(lambda plan: problem_of(plan, folder, commands), wanted)):
            total[problem is not None] += 1
            print(f"{'FAIL' if problem else 'ok':4} {plan['name']}{': ' + problem if problem else ''}", flush=True)
    print(count_results.line_of(total))
    # An empty comparison proves nothing.
    return 0 if presets and total[0] > 0 and total[1] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
