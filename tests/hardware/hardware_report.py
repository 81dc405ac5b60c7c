#!/usr/bin/env python3
"""Writes the report of a run of hardware_check.py from what that has recorded: a pure function.

usage: hardware_report.py RECORD.json > REPORT.md
"""

import json
import sys

# Every line of the list is answered, also where nothing was run for it.
LINES = {
    "1": "driver, NCCL's version, CPUs",
    "2": "the loopback counter counts",
    "3": "collectives with exact volume: values and bytes",
    "4": "the same with the algorithms that NCCL chooses",
    "5": "split into 2 x 4 and 4 x 2, calls of both axes interleaved",
    "6": "one rank killed: the others end in time",
    "7": "NCCL's INFO logs are kept",
    "scenarios": "verify scenarios: values, bytes, memory held against the simulation",
    "table": "the collective table beside the simulated times",
}


def answer_of(checks):
    if not checks:
        return "skipped", "nothing was run for it"
    counts = {status: sum(check["status"] == status for check in checks) for status in ("ok", "failed", "skipped")}
    said = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    if counts["failed"]:
        first = next(check for check in checks if check["status"] == "failed")
        return "FAILED", f"{said}; first: {first['name']}: {first['seen']}"
    if counts["skipped"]:
        first = next(check for check in checks if check["status"] == "skipped")
        whole = "skipped" if not counts["ok"] else "in part"
        return whole, f"{said}; skipped because {first['seen']}"
    return "ok", checks[0]["seen"] if len(checks) == 1 else said


def cell(text):
    return " ".join(str(text).split()).replace("|", "\\|")


def render(record):
    machine = record["machine"]
    out = [f"# Real backends on hardware, {record['date']}", "",
           f"`tests/hardware/run.sh` with {machine['shardsim']}, {record['seconds']} s in all.", "",
           "Where ranks share a GPU, values and bytes are those of NCCL, and times mean nothing.", "",
           "## Machine", ""]
    out += [f"- GPU: {gpu}" for gpu in machine["gpus"]] or ["- GPUs: nvidia-smi is not there to name them"]
    out += [f"- {machine['cpus']} CPUs, Linux {machine['kernel']}, {machine['libc']}"]
    out += [f"- {row['what']}: {row['detail']}" for row in machine["doctor"]]
    out += ["", "## The list", "", "| | what | answer | seen |", "|---|---|---|---|"]
    for line, what in LINES.items():
        answer, seen = answer_of([check for check in record["checks"] if check["line"] == line])
        out.append(f"| {line} | {what} | {answer} | {cell(seen)} |")
    out += ["", "## Every check", "", "| | check | result | s | seen |", "|---|---|---|---|---|"]
    for check in record["checks"]:
        seconds = "" if check["seconds"] is None else check["seconds"]
        out.append(f"| {check['line']} | {cell(check['name'])} | {check['status']} | {seconds} | {cell(check['seen'])} |")
    if record["tables"]:
        out += ["", "## Tables", ""]
        for table in record["tables"]:
            out += ["```", table.rstrip(), "```", ""]
    return "\n".join(out).rstrip() + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.write(render(json.load(file)))
