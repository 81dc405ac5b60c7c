"""Records the kernels of the rows of system.software from the frameworks' own module code
(families.py), and writes sim/hardware/software/recorded.json, from which the rows are made.

It wants PyTorch 2.6 (Debian 13's python3-torch), git and the network, so CI does not run it.

usage: record_rows.py FOLDER [--check] [SOFTWARE...]   FOLDER: for the frameworks' sources
       --check: says what the file has otherwise, and fails for it
"""

import argparse
import difflib
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/torch"))

from recordings import record_rank  # noqa: E402

OUT = ROOT / "sim/hardware/software/recorded.json"
FAMILIES = pathlib.Path(__file__).with_name("families.py")
# By row: repository, commit, and the files whose code is run.
SOURCES = {
    "composer-2023": ("mosaicml/llm-foundry", "8c8dd48", [
        "llmfoundry/models/layers/norm.py", "llmfoundry/models/layers/ffn.py"]),
    "deepspeed-2024": ("huggingface/transformers", "0022728", [
        "src/transformers/models/llama/modeling_llama.py"]),
    "internevo-2023": ("InternLM/InternEvo", "c18bec9", [
        "internlm/model/linear.py", "internlm/model/modeling_internlm.py"]),
    "megatron-core-2023": ("NVIDIA/Megatron-LM", "38879f8", [
        "megatron/core/tensor_parallel/cross_entropy.py"]),
    "megatron-lm-2021": ("NVIDIA/Megatron-LM", "e269e20", ["megatron/mpu/cross_entropy.py"]),
    "torchtitan-2024": ("pytorch/torchtitan", "3faaa1a", [
        "torchtitan/models/norms.py", "torchtitan/models/llama/model.py", "train.py"]),
}
# Kernels inside one operator, and bytes that its kernels move beyond its operands, per element: the
# recorder sees operators.
SOFTMAX = "PyTorch's SoftMax.cu: a row is read once more than it is needed"
INSIDE = {
    "_log_softmax": (0, 4, SOFTMAX),
    "_log_softmax_backward_data": (0, 4, SOFTMAX + ", half of the second tensor from the cache"),
    "native_layer_norm_backward": (3, 4, "PyTorch's layer_norm_kernel.cu: a second pass over dy and x "
                                         "for the gradients of the weights, and two sums"),
}
# Fused kernels that need CUDA: (row, family, phase): kernels, bytes of an element, why.
APEX = "apex's layer_norm_cuda_kernel.cu: "
STAND_INS = {
    ("internevo-2023", "norm", "forward"): (1, 6, APEX + "reads fp32, writes 16 bits"),
    ("internevo-2023", "norm", "backward"): (3, 16, APEX + "dy and x for the input's gradient, which "
                                                    "is fp32; again for the weights'; a sum"),
}
STAND_INS_KEEP = {("internevo-2023", "norm"): (4, APEX + "its input in fp32")}
PHASES = {"forward": "", "backward": "_backward"}


def clone(folder, repository, commit):
    """A folder with the sources; one that is there is taken as it is."""
    path = folder / f"{repository.replace('/', '+')}-{commit}"
    if not path.is_dir():
        address = f"https://github.com/{repository}"
        subprocess.run(["git", "clone", "--quiet", "--filter=blob:none", "--no-checkout", address,
                        path], check=True)
        subprocess.run(["git", "-C", path, "checkout", "--quiet", commit], check=True)
    return path


def family_rows(software, name, facts, operators):
    """The kernels of a family in forward and in backward, relative to an operation of ours."""
    rows = {}
    for (phase, suffix), ideal in zip(PHASES.items(), facts["ideal"], strict=False):
        kernels = len(operators[phase])
        moved = sum(row["bytes"] for row in operators[phase]) / facts["elements"]
        because = []
        inside = [INSIDE[row["name"]] for row in operators[phase] if row["name"] in INSIDE]
        for more, more_bytes, why in inside + [STAND_INS.get((software, name, phase), (0, 0, ""))]:
            kernels, moved = kernels + more, moved + more_bytes
            because += [why] if why else []
        rows[name + suffix] = {"kernels": kernels / facts["calls"], "bytes": round(moved, 1),
                               "of_ideal_bytes": ideal} | ({"added": because} if because else {})
    more, why = STAND_INS_KEEP.get((software, name), (0, ""))
    rows[name]["kept_bytes"] = round(facts["kept"] / facts["elements"], 1) + more
    rows[name]["of_ideal_kept"] = facts["ideal"][2]
    if why:
        rows[name].setdefault("added", []).append(why)
    return rows


def recorded(software, sources):
    """By family, its kernels, bytes and what is kept, for each of its elements."""
    record, said = record_rank(0, 1, FAMILIES, software, str(sources))
    facts = json.loads(next(line for line in said.splitlines() if line.startswith("facts "))[6:])
    operators = {name: {phase: [] for phase in PHASES} for name in facts}
    rows = record.rows("c", "operation")
    for (phase, module, _), row in zip(record.places(), rows, strict=True):
        if module.split(".")[0] in operators:
            operators[module.split(".")[0]][phase].append(row)
    found = {}
    for name in sorted(facts):
        found |= family_rows(software, name, facts[name], operators[name])
    return found


def text_of(rows):
    """A line for each family."""
    blocks = []
    for software, row in sorted(rows.items()):
        lines = [f"      {json.dumps(name)}: {json.dumps(each)}"
                 for name, each in sorted(row["families"].items())]
        blocks.append(f"  {json.dumps(software)}: {{\n    \"source\": {json.dumps(row['source'])},\n"
                      "    \"families\": {\n" + ",\n".join(lines) + "\n    }}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("software", nargs="*", default=sorted(SOURCES))
    options = parser.parse_args()
    before = OUT.read_text(encoding="utf-8") if OUT.is_file() else "{}"
    rows = json.loads(before)
    for software in options.software:
        repository, commit, files = SOURCES[software]
        rows[software] = {"source": f"{repository} at {commit}: {', '.join(files)}",
                          "families": recorded(software, clone(options.folder, repository, commit))}
    if not options.check:
        OUT.write_text(text_of(rows), encoding="utf-8")
    elif text_of(rows) != before:
        sys.stdout.writelines(difflib.unified_diff(before.splitlines(True),
                                                   text_of(rows).splitlines(True), OUT.name, "recorded"))
        sys.exit(f"{OUT.name} is not what the frameworks' code does")


if __name__ == "__main__":
    main()
