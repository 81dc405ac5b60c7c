"""Writes the recorded kernels of software rows (recorded.json) as the tables that are compiled.

usage: make_uses.py OUTPUT RECORDED"""

import json
import sys

MEMORY = ("norm", "activation")  # Families of which a framework may keep more for backward.


def use_of(software, name, family):
    traffic = family["bytes"] / family["of_ideal_bytes"]
    return (f"    {{{json.dumps(software)}, KernelFamily::{name}, "
            f"{{{family['kernels']!r}, {traffic!r}}}}},\n")


def memory_of(software, row):
    fields = [f".source = {json.dumps(row['source'])}"]
    for name in MEMORY:
        family = row["families"].get(name)
        kept = max(0.0, family["kept_bytes"] - family["of_ideal_kept"]) if family else 0.0
        fields.append(f".{name}_kept_bytes = {kept!r}")
    return f"    {{.software = {json.dumps(software)},\n     " + ",\n     ".join(fields) + "},\n"


def table(kind, name, lines):
    return [f"inline constexpr std::array<{kind}, {len(lines)}> {name} = {{{{\n", *lines, "}};\n\n"]


def main():
    output, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)
    uses = [use_of(software, name, family) for software in sorted(rows)
            for name, family in sorted(rows[software]["families"].items())]
    memory = [memory_of(software, rows[software]) for software in sorted(rows)]
    with open(output, "w", encoding="utf-8") as file:
        file.writelines([
            "#pragma once\n\n#include <array>\n\n#include \"sim/hardware/software.hpp\"\n\n",
            "// Written by sim/hardware/software/make_uses.py.\nnamespace shardsim {\n\n",
            *table("RecordedUse", "kRecordedUses", uses),
            *table("RecordedSoftware", "kRecordedSoftware", memory),
            "}  // namespace shardsim\n"])


if __name__ == "__main__":
    main()
