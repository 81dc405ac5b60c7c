"""Cuts records down to the kernels and calls of their last step, for tests that need no PyTorch:
each call is waited for at once, and memory and streams are left out.

usage: cut_records.py OUT   makes OUT/NAME.RANK.jsonl, as they stand in tests/programs/data/torch
"""

import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import own_strategies  # noqa: E402
from recordings import PROGRAMS, record_rank  # noqa: E402

STRATEGIES = ("ddp", "fsdp2", "hsdp", "tp", "tp_sp", "1f1b")
TABLES = {"c": "operation", "p": "call", "m": "mark"}


def cut(record):
    """The lines of the smaller record."""
    last = max(row["step"] for row in record.tables["mark"] if row["kind"] == "step_ends")
    end = {"kind": "step_ends", "step": last}
    words = record.of_step(last) + [f"m{record.tables['mark'].index(end)}"]
    numbers, rows, steps = {}, [], []
    for word in words:
        table = TABLES.get(word[0])
        if table is None:
            continue
        row = json.dumps({table: record.tables[table][int(word[1:].split(":")[0])]})
        if row not in numbers:
            numbers[row] = sum(key.startswith(f'{{"{table}"') for key in numbers)
            rows.append(row)
        steps.append(word[0] + str(numbers[row]) + (":0 w0" if word[0] == "p" else ""))
    header = record.header | {"notes": []}
    groups = [json.dumps({"group": {"name": name, "members": members}})
              for name, members in record.groups.items()]
    program = json.dumps({"program": {"rank": header["recorded"]}})
    return [json.dumps(header), *groups, *rows, program, json.dumps({"steps": " ".join(steps)})]


def write(name, records, out):
    for each in records:
        path = out / f"{name}.{each.header['recorded']}.jsonl"
        path.write_text("\n".join(cut(each)) + "\n", encoding="utf-8")


def main():
    out = pathlib.Path(sys.argv[1])
    size = {"vocab_size": 512, "hidden_size": 256, "ffn_hidden_size": 688, "num_attention_heads": 4,
            "num_layers": 2, "seq_len": 128, "batch": 4}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LLAMA_SIZE"] = f"{folder}/size.json"
        pathlib.Path(os.environ["LLAMA_SIZE"]).write_text(json.dumps(size), encoding="utf-8")
        for name in STRATEGIES:
            write(name, own_strategies.recorded(name, pathlib.Path(folder)), out)
        write("experts", [record_rank(0, 8, PROGRAMS / "experts.py")[0]], out)


if __name__ == "__main__":
    main()
