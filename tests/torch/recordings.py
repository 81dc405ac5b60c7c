"""Records programs and reads what was recorded, for the tests."""

import collections
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests/torch/programs"
SIZES = {"fp64": 8, "int64": 8, "fp32": 4, "int32": 4, "bf16": 2, "fp16": 2, "int8": 1,
         "fp8_e4m3": 1}


def environment():
    return os.environ | {"PYTHONPATH": str(ROOT / "python"), "PYTHONHASHSEED": "0"}


def moved(call, members):
    """(kind, bytes, type, members) of what a call moves, messages apart."""
    if "messages" in call:
        return [("send" if "to" in message else "recv", message["count"] * SIZES[message["dtype"]],
                 message["dtype"], 2) for message in call["messages"]]
    count = call["count"] or sum(call.get("send_counts", []))
    return [(call["kind"], count * SIZES[call["dtype"]], call["dtype"], members)]


class Record:
    """A rank's file: rows of its tables, and its steps."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.tables = collections.defaultdict(list)
        self.groups = {}
        self.steps = []
        with open(path, encoding="utf-8") as file:
            self.header = json.loads(next(file))
            for line in file:
                (kind, row), = json.loads(line).items()
                if kind == "group":
                    self.groups[row["name"]] = row["members"]
                elif kind == "steps":
                    self.steps += row.split()
                elif kind != "program":
                    self.tables[kind].append(row)

    def rows(self, letter, table, step=None):
        """The rows that steps with a letter name, of one training step or of all."""
        return [self.tables[table][int(word[1:].split(":")[0])]
                for word in self.of_step(step) if word[0] == letter]

    def of_step(self, number):
        if number is None:
            return self.steps
        kinds = {f"m{i}": (row["kind"], row["step"]) for i, row in enumerate(self.tables["mark"])}
        at = {kinds[word]: i for i, word in enumerate(self.steps) if word in kinds}
        return self.steps[at["step_begins", number]:at["step_ends", number]]

    def calls(self, step=None):
        """(kind, bytes, type, members) of each call, messages apart."""
        return [found for call in self.rows("p", "call", step)
                for found in moved(call, len(self.groups.get(call["group"],
                                                             range(self.header["ranks"]))))]

    def places(self, step=None):
        """(phase, module, name) of each operation."""
        found = []
        for word in self.of_step(step):
            if word[0] == "c":
                row, _, place = word[1:].partition(":")
                where = self.tables["place"][int(place)] if place else {}
                found.append((where.get("phase", ""), where.get("module", ""),
                              self.tables["operation"][int(row)]["name"]))
        return found

    def operations(self, step=None):
        return [row["name"] for row in self.rows("c", "operation", step)]

    def peak_bytes(self):
        """Recomputed from the list, one allocation after another."""
        live = {}
        peak = 0
        for word in self.steps:
            if word[0] == "a":
                row, slot = word[1:].split(":")
                live[slot] = self.tables["allocation"][int(row)]["bytes"]
                peak = max(peak, sum(live.values()))
            elif word[0] == "r":
                del live[word[1:]]
        return peak


def run(command, **named):
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False,
                          **named)


@functools.cache
def gpu_facts():
    return run([os.environ["SHARDSIM"], "torch", "--gpu-facts"]).stdout


def record_rank(rank, world, script, *arguments, folder=None):
    """One rank alone. Returns its record and what it printed."""
    folder = pathlib.Path(folder or tempfile.mkdtemp())
    path = folder / f"rank-{rank}.jsonl"
    done = run([sys.executable, "-m", "shardsim.torch.launch", "--rank", str(rank), "--world",
                str(world), "--gpu-facts", gpu_facts(), "--out", str(path), str(script), *arguments])
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return Record(path), done.stdout


def record(world, folder, script, *arguments, options=()):
    """Those that stand for all. Returns the process that ended."""
    return run([sys.executable, "-m", "shardsim.torch.record", "--world", str(world), "--out",
                str(folder), *options, str(script), *arguments])


def replay(*words):
    return run([os.environ["SHARDSIM"], "replay", *map(str, words)])


def torch_verb(*words):
    return run([os.environ["SHARDSIM"], "torch", *map(str, words)])
