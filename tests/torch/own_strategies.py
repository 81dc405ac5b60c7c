"""Holds this project's strategies against PyTorch's: what each rank of one small Llama sends in a
training step, as recorded of programs/llama.py, and as a scenario of the same split has it.

usage: own_strategies.py [STRATEGY...]   prints the differences as a table
"""

import collections
import json
import os
import pathlib
import sys
import tempfile
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import recordings  # noqa: E402
from recordings import PROGRAMS, Record, record, record_rank, run  # noqa: E402

STEP = 2  # Of a recording, the last of three.
WEIGHTS_OF_BLOCK = 7
MODEL = {"family": "llama", "num_layers": 4, "hidden_size": 256, "ffn_hidden_size": 688,
         "num_attention_heads": 4, "vocab_size": 512, "seq_len": 128}
CLIPPED = {"max_grad_norm": 1.0}
SHARDED = CLIPPED | {"grad_reduce_dtype": "fp32"}
PIPELINED = {"global_batch_size": 4, "micro_batch_size": 1}

# By name: ranks, words of llama.py, and the scenario's sections beside the model.
STRATEGIES = {
    "ddp": (8, ["ddp"], {"zero_stage": 0}, CLIPPED),
    "fsdp2": (8, ["fsdp2"], {"zero_stage": 3}, SHARDED),
    "fsdp2_units": (8, ["fsdp2_units"], {"zero_stage": 3}, SHARDED),
    "fsdp2_no_reshard": (8, ["fsdp2_no_reshard"],
                         {"zero_stage": 3, "reshard_after_forward": False}, SHARDED),
    "hsdp": (8, ["hsdp"], {"zero_stage": 3, "dp_replicate": 2}, SHARDED),
    "tp": (4, ["tp"], {"tp": 4}, {}),
    "tp_sp": (4, ["tp_sp"], {"tp": 4, "sequence_parallel": True}, {}),
    "gpipe": (4, ["pp", "gpipe"], {"pp": 4, "schedule": "gpipe"}, PIPELINED),
    "1f1b": (4, ["pp", "1f1b"], {"pp": 4, "schedule": "1f1b"}, PIPELINED),
    "interleaved_1f1b": (4, ["pp", "interleaved_1f1b"],
                         {"pp": 4, "vpp": 2, "schedule": "interleaved_1f1b"}, PIPELINED),
    "looped_bfs": (4, ["pp", "looped_bfs"], {"pp": 4, "vpp": 2, "schedule": "looped_bfs"},
                   PIPELINED),
    "zero_bubble": (4, ["pp", "zero_bubble"], {"pp": 4, "schedule": "zb_h1"}, PIPELINED),
    # Ours has no name for it: the file that PyTorch has written.
    "interleaved_zero_bubble": (4, ["pp", "interleaved_zero_bubble"],
                                {"pp": 4, "vpp": 2, "schedule": "file",
                                 "schedule_file": "schedule.csv"}, PIPELINED),
}

# --- What differs, and why -----------------------------------------------------------------------

LOSS = "the mean loss of all ranks, which a step here always reports"
NORM = "the gradient's norm: fp32 there, fp64 here"
BUCKETS = ("a bucket ends there with the gradient that takes it past its limit, here before it; "
           "together they are equal")
ROOT = "one unit of what is in no block there (the script's choice), two here"
ROOT_ONCE = ROOT + "; as the root it stays gathered there, here both are gathered again"
OUTER = "embedding and head are cut here, and whole in the script"
INPUTS = ("each product adds up the gradient of its own input there: five for a block; here those "
          "of one input are added up before, two for a block")
CUT_LOSS = "cross entropy of cut logits: largest, target and sum; there the logits are gathered"
WHOLE_LOGITS = "logits are gathered for the loss, which is cut here"
KEPT = "a product's gathered input is kept for its weight's gradient there, gathered again here"
NORMS = "gradients of norms: each by itself there, all in one call here"

# By strategy: (call, PyTorch's count, ours, reason).
EMBEDDING, HEAD = 512 * 256, 512 * 256 + 256  # With the last norm.
WIDTH = 4 * 128 * 256 * 2


def _root(shards, gathers, reason):
    """Of sharded units: embedding and head."""
    rows = [(("all_gather", 2 * EMBEDDING, "bf16", shards), 0, gathers, reason),
            (("all_gather", 2 * HEAD, "bf16", shards), 0, gathers, reason),
            (("all_gather", 2 * (EMBEDDING + HEAD), "bf16", shards), 1, 0, reason)]
    return rows + [(("reduce_scatter", 4 * numel, "fp32", shards), *counts, ROOT)
                   for numel, *counts in ((EMBEDDING, 0, 1), (HEAD, 0, 1),
                                          (EMBEDDING + HEAD, 1, 0))]


def _scalars(shards=8):
    rows = [(("all_reduce", 4, "fp32", shards), 1, 0, NORM)]
    if shards == 8:
        return rows + [(("all_reduce", 8, "fp64", 8), 0, 2, NORM + "; and " + LOSS)]
    return rows + [(("all_reduce", 8, "fp64", shards), 0, 1, NORM),
                   (("all_reduce", 8, "fp64", 8), 0, 1, LOSS)]


EXPECTED = {
    "ddp": [(("all_reduce", 8, "fp64", 8), 0, 1, LOSS)]
           + [(("all_reduce", size, "bf16", 8), *counts, BUCKETS)
              for size, *counts in ((967168, 0, 1), (1319424, 1, 0), (5533696, 1, 0),
                                    (5885952, 0, 1))],
    "fsdp2": _root(8, 2, ROOT_ONCE) + _scalars(),
    "fsdp2_units": _scalars(),
    "fsdp2_no_reshard": _root(8, 1, ROOT) + _scalars(),
    "hsdp": _root(4, 2, ROOT_ONCE) + _scalars(4)
            + [(("all_reduce", numel, "fp32", 2), *counts, ROOT)
               for numel, *counts in ((EMBEDDING, 0, 1), (HEAD, 0, 1), (EMBEDDING + HEAD, 1, 0))],
    "tp": [(("all_reduce", 4 * 128 * 4, "fp32", 4), 0, 3, CUT_LOSS + " here"),
           (("all_reduce", WIDTH, "bf16", 4), 28, 18, INPUTS + ". " + OUTER + ": two more")],
    "tp_sp": [(("all_gather", WIDTH, "bf16", 4), 18, 27, KEPT),
              (("all_gather", 4 * 128 * 512 * 2, "bf16", 4), 1, 0, WHOLE_LOGITS),
              (("all_reduce", 4 * 128 * 4, "fp32", 4), 0, 3, CUT_LOSS),
              (("all_reduce", 256 * 2, "bf16", 4), 9, 0, NORMS),
              (("all_reduce", 9 * 256 * 2, "bf16", 4), 0, 1, NORMS)],
}

# --- Both programs -------------------------------------------------------------------------------


def scenario_of(name, model=None, system=None, training=None):
    ranks, _, parallelism, of_strategy = STRATEGIES[name]
    model = dict(model or MODEL)
    model["num_layers"] = max(model["num_layers"],
                              parallelism.get("pp", 1) * parallelism.get("vpp", 1))
    # Four sequences on each rank that has its own; pipelines have four microbatches of one.
    data = ranks // parallelism.get("tp", 1) // parallelism.get("pp", 1)
    return {"schema_version": 1, "name": name, "model": model,
            "system": {"preset": "dgx-h100", "nodes": 1, "gpus_per_node": ranks} | (system or {}),
            "parallelism": parallelism,
            "training": {"global_batch_size": 4 * data, "micro_batch_size": 4, "precision": "bf16",
                         "optimizer": "adamw"} | of_strategy | (training or {})}


class Program:
    """A program file of all ranks, as `shardsim export program` writes it."""

    def __init__(self, path):
        self.tables = collections.defaultdict(list)
        self.of_rank = {}
        with open(path, encoding="utf-8") as file:
            self.ranks = json.loads(next(file))["ranks"]
            for line in file:
                (kind, row), = json.loads(line).items()
                if kind == "program":
                    groups, steps = [{"size": self.ranks}, *row.get("groups", [])], []
                    for first, count in row["ranks"]:
                        self.of_rank |= dict.fromkeys(range(first, first + count), (groups, steps))
                elif kind == "steps":
                    steps += row.split()
                else:
                    self.tables[kind].append(row)

    def rows(self, rank, letter, table):
        return [self.tables[table][int(word[1:].split(":")[0])]
                for word in self.of_rank[rank][1] if word[0] == letter]

    def calls(self, rank):
        """As Record.calls."""
        groups, _ = self.of_rank[rank]
        return [found for call in self.rows(rank, "p", "call")
                for found in recordings.moved(call, groups[call["group"]]["size"])]


def own_program(name, folder, **sections):
    """The scenario's program, in a file of that folder."""
    scenario = folder / "scenario.json"
    scenario.write_text(json.dumps(scenario_of(name, **sections)), encoding="utf-8")
    path = folder / "own.program.jsonl"
    done = run([os.environ["SHARDSIM"], "export", "program", str(scenario), "-o", str(path)])
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return path


def recorded(name, folder):
    """The records of the ranks that differ. A schedule that the script has made lies in the
    folder."""
    ranks, words, *_ = STRATEGIES[name]
    if words[0] != "pp":
        return [record_rank(0, ranks, PROGRAMS / "llama.py", *words)[0]]
    with unittest.mock.patch.dict(os.environ, SCHEDULE_CSV=str(folder / "schedule.csv")):
        done = record(ranks, folder / "records", PROGRAMS / "llama.py", *words)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return [Record(path) for path in sorted((folder / "records").glob("*.jsonl"))]


def letters(operations, tokens):
    """The order of a pipeline rank's actions, of which each has one block: F, B, and W where all
    products of its weights' gradients are together. Those alone have the tokens of a microbatch
    inside."""
    found, weights = "", 0
    for row in operations:
        if row.get("family") in ("matrix_product", "weight_gradient"):
            weights += row["shape"][2] == tokens
        elif row.get("family", "").startswith("attention"):
            found += "W" * (weights // WEIGHTS_OF_BLOCK)
            weights = 0
            found += "B" if "backward" in row["family"] else "F"
    return found + "W" * (weights // WEIGHTS_OF_BLOCK)


class Compared:
    """What both have in common and what not, by rank that was recorded."""

    def __init__(self, name, folder):
        self.differences = {}  # {call: (PyTorch's count, ours)}
        self.equal = {}
        self.orders = {}  # By rank of a pipeline.
        self.sent = collections.Counter()  # Messages of all its ranks.
        records = recorded(name, folder)
        own = Program(own_program(name, folder))
        for each in records:
            rank = each.header["recorded"]
            theirs = collections.Counter(each.calls(STEP))
            ours = collections.Counter(own.calls(rank))
            self.equal[rank] = sum((theirs & ours).values())
            self.differences[rank] = {call: (theirs[call], ours[call])
                                      for call in sorted(theirs | ours)
                                      if theirs[call] != ours[call]}
            if STRATEGIES[name][1][0] != "pp":
                continue
            # PyTorch's first stage splits no backward: nobody waits for its input's gradient.
            kept = "FB" if "zero_bubble" in name and rank == 0 else "FBW"
            self.orders[rank] = tuple(
                "".join(letter for letter in letters(rows, 128) if letter in kept)
                for rows in (each.rows("c", "operation", STEP), own.rows(rank, "c", "operation")))
            self.sent = self.sent + collections.Counter(
                {call: count for call, count in theirs.items() if call[0] in ("send", "recv")})


def print_table(name, both):
    reasons = {call: reason for call, _, _, reason in EXPECTED.get(name, [])}
    for rank, equal in both.equal.items():
        print(f"| {name}, rank {rank} | {equal} equal | | | |")
        for call, (theirs, ours) in both.differences[rank].items():
            kind, size, dtype, members = call
            print(f"| | {kind} of {size:,} bytes, {dtype}, {members} ranks | {theirs} | {ours} | "
                  f"{reasons.get(call, 'not known')} |")
        if rank in both.orders:
            theirs, ours = both.orders[rank]
            print(f"| | actions | {theirs} | {'the same' if theirs == ours else ours} | |")


def main():
    print("| strategy | calls of a step | PyTorch | here | why |")
    print("|---|---|---:|---:|---|")
    for name in sys.argv[1:] or STRATEGIES:
        with tempfile.TemporaryDirectory() as folder:
            print_table(name, Compared(name, pathlib.Path(folder)))


if __name__ == "__main__":
    main()
