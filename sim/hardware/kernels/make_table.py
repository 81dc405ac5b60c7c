"""Writes the table of kernel constants that is compiled, from a JSON file for each GPU.

usage: make_table.py OUTPUT EVERY_GPU GPU...

Each constant is [value, source], with the source's name among the file's. A constant that a GPU lacks is that of
EVERY_GPU, or of its `neighbour`, and then says `neighbour_source`."""

import json
import sys

# In the order of KernelConstants (sim/hardware/kernels/kernel_constants.hpp).
NAMES = ("multiprocessors", "matmul_rate", "tile_halving", "tile_overhead_s", "epilogue_exposed", "unaligned_share",
         "attention_forward_rate", "attention_backward_rate", "attention_head_halving", "attention_keys_halving",
         "attention_forward_tail", "attention_backward_tail", "fp8_share", "fp8_block_share", "fp4_share",
         "permutation_share", "cross_entropy_share", "amax_share", "quantize_share", "beside_communication")


def own_constants(path, document):
    """Constants that the file itself has: {name: (value, source)}."""
    found = {}
    for name, (value, source) in document["constants"].items():
        if name not in NAMES:
            sys.exit(f"{path}: \"{name}\" is no constant of kernels; there are {', '.join(NAMES)}")
        if source not in document["sources"]:
            sys.exit(f"{path}: the source \"{source}\" of {name} is not among \"sources\"")
        found[name] = (float(value), document["sources"][source])
    for source in document["sources"]:
        if source not in [used for _, used in document["constants"].values()]:
            sys.exit(f"{path}: no constant has the source \"{source}\"; leave it out")
    return found


def resolved(gpus, every, name):
    """All constants of a GPU, each with its source."""
    path, document = gpus[name]
    constants = dict(every)
    if "neighbour" in document:
        if document["neighbour"] not in gpus:
            sys.exit(f"{path}: the neighbour \"{document['neighbour']}\" has no file")
        for constant, (value, _) in resolved(gpus, every, document["neighbour"]).items():
            if constant not in every:
                constants[constant] = (value, document["neighbour_source"])
    constants.update(own_constants(path, document))
    missing = [constant for constant in NAMES if constant not in constants]
    if missing:
        sys.exit(f"{path}: {', '.join(missing)} missing: measure them, or name a \"neighbour\"")
    return constants


def main():
    output, every_path, *paths = sys.argv[1:]
    documents = {}
    for path in (every_path, *paths):
        with open(path, encoding="utf-8") as file:
            documents[path] = json.load(file)
    every = own_constants(every_path, documents[every_path])
    gpus = {documents[path]["name"]: (path, documents[path]) for path in paths}
    rows, capabilities = [], []
    for name in sorted(gpus):
        constants = resolved(gpus, every, name)
        fields = "".join(f",\n     .{constant} = {{{constants[constant][0]!r}, {json.dumps(constants[constant][1])}}}"
                         for constant in NAMES)
        rows.append(f"    {{.name = {json.dumps(name)}{fields}}},\n")
        capabilities.append(f"    {float(gpus[name][1]['compute_capability'])!r},  // {name}\n")
    with open(output, "w", encoding="utf-8") as file:
        file.write("#pragma once\n\n#include <array>\n\n"
                   "#include \"sim/hardware/kernels/kernel_constants.hpp\"\n"
                   "#include \"sim/hardware/kernels/replaced_constants.hpp\"\n\n"
                   "// Written by sim/hardware/kernels/make_table.py.\nnamespace shardsim {\n\n"
                   f"inline constexpr std::array<KernelConstants, {len(rows)}> kKernelTable = {{{{\n")
        file.writelines(rows)
        file.write(f"}}}};\n\ninline constexpr std::array<double, {len(rows)}> kCapabilityTable = {{{{\n")
        file.writelines(capabilities)
        file.write(f"}}}};\n\ninline constexpr std::array<KernelConstantMember, {len(NAMES)}> kConstantMembers = {{{{\n")
        file.writelines(f"    {{{json.dumps(name)}, &KernelConstants::{name}}},\n" for name in NAMES)
        file.write("}};\n\n}  // namespace shardsim\n")


if __name__ == "__main__":
    main()
