"""What must hold of recorded PyTorch programs: laws PT1, PT2, PT4, PT6, PT8 and PT10.

It needs PyTorch 2.6 and a built command (SHARDSIM); `./dev torch` has both. Without them all is
skipped.
"""

import collections
import importlib.util
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import recordings  # noqa: E402
from recordings import PROGRAMS, record, record_rank, replay  # noqa: E402

LLAMA = PROGRAMS / "llama.py"
# Of programs/llama.py: vocabulary, width, width of the MLP, layers, tokens of a step.
VOCAB, HIDDEN, FFN, LAYERS, TOKENS = 512, 256, 688, 4, 4 * 128
BLOCK = 4 * HIDDEN * HIDDEN + 3 * HIDDEN * FFN + 2 * HIDDEN
PARAMETERS = LAYERS * BLOCK + 2 * VOCAB * HIDDEN + HIDDEN
STEP = 2  # The last of three.

HAS_TORCH = importlib.util.find_spec("torch") is not None and "SHARDSIM" in os.environ


def counted(record_, step=STEP):
    return collections.Counter(record_.calls(step))


@unittest.skipUnless(HAS_TORCH, "PyTorch 2.6 is not installed here: ./dev torch")
class LawsTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    # --- PT1: bytes --------------------------------------------------------------------------

    def test_pt1_fsdp2_gathers_and_reduces_each_parameter_to_the_byte(self):
        rank, _ = record_rank(0, 8, LLAMA, "fsdp2")
        # The root's parameters stay gathered in forward; those of blocks are gathered twice. The
        # last block is gathered again, too: PyTorch does not know that it is the last.
        root = 2 * VOCAB * HIDDEN + HIDDEN
        self.assertEqual(counted(rank), {
            ("all_gather", 2 * root, "bf16", 8): 1,
            ("all_gather", 2 * BLOCK, "bf16", 8): 2 * LAYERS,
            ("reduce_scatter", 4 * root, "fp32", 8): 1,
            ("reduce_scatter", 4 * BLOCK, "fp32", 8): LAYERS,
            ("all_reduce", 4, "fp32", 8): 1})  # The norm.

    def test_pt1_ddp_reduces_all_gradients_to_the_byte(self):
        rank, _ = record_rank(0, 8, LLAMA, "ddp")
        calls = rank.calls(STEP)
        self.assertEqual({call[0] for call in calls}, {"all_reduce"})
        self.assertEqual(sum(call[1] for call in calls), 2 * PARAMETERS)

    def test_pt1_experts_get_the_tokens_that_were_counted(self):
        rank, _ = record_rank(0, 8, PROGRAMS / "experts.py")
        # Eight of 64 experts for each of 1,024 tokens of width 128, there and back, and the same
        # for gradients.
        moved = [call for call in rank.calls(STEP) if call[0] == "all_to_all" and call[2] == "bf16"]
        self.assertEqual(moved, [("all_to_all", 8 * 1024 * 128 * 2, "bf16", 8)] * 4)

    # --- PT2: strategies as PyTorch has them --------------------------------------------------

    def test_pt2_tensor_parallel_reduces_each_gradient_of_an_input_by_itself(self):
        rank, _ = record_rank(0, 4, LLAMA, "tp")
        row = TOKENS * HIDDEN * 2
        # Forward: attention and MLP of each block. Backward: q, k, v, gate and up have an input of
        # their own each, where Megatron-LM and this project's strategies add them up before.
        self.assertEqual(counted(rank), {("all_reduce", row, "bf16", 4): (2 + 5) * LAYERS})

    def test_pt2_sequence_parallel_gathers_and_scatters_the_same_rows(self):
        rank, _ = record_rank(0, 4, LLAMA, "tp_sp")
        row = TOKENS * HIDDEN * 2
        found = counted(rank)
        # Forward: into attention and MLP of each block, and into the head.
        self.assertEqual(found[("all_gather", row, "bf16", 4)],
                         4 * LAYERS + 2)
        self.assertEqual(found[("reduce_scatter", row, "bf16", 4)], 4 * LAYERS + 2)

    def test_pt2_hybrid_sharding_reduces_shards_over_replicas(self):
        rank, _ = record_rank(0, 8, LLAMA, "hsdp")
        found = counted(rank)
        self.assertEqual(found[("reduce_scatter", 4 * BLOCK, "fp32", 4)], LAYERS)
        self.assertEqual(found[("all_reduce", BLOCK, "fp32", 2)], LAYERS)

    def test_pt2_without_resharding_nothing_is_gathered_again(self):
        rank, _ = record_rank(0, 8, LLAMA, "fsdp2_no_reshard")
        self.assertEqual(counted(rank)[("all_gather", 2 * BLOCK, "bf16", 8)], LAYERS)

    def test_pt2_schedules_send_each_microbatch_over_each_boundary(self):
        boundary = TOKENS // 4 * HIDDEN * 2
        for name, stages in (("gpipe", 4), ("1f1b", 4), ("interleaved_1f1b", 8), ("looped_bfs", 8),
                             ("interleaved_zero_bubble", 8), ("zbv", 8)):
            with self.subTest(name):
                done = record(4, self.folder / name, LLAMA, "pp", name)
                self.assertEqual(done.returncode, 0, done.stderr)
                sent = collections.Counter()
                for path in sorted((self.folder / name).glob("*.jsonl")):
                    sent += counted(recordings.Record(path))
                # The middle of a V is on one rank, which copies.
                passed = 2 * 4 * (stages - 1 - (name == "zbv"))
                self.assertEqual(sent[("send", boundary, "bf16", 2)], passed)
                self.assertEqual(sent[("recv", boundary, "bf16", 2)], passed)
                self.assertEqual(replay(self.folder / name).returncode, 0)

    # --- PT4: memory -------------------------------------------------------------------------

    def test_pt4_the_peak_is_that_of_the_allocations(self):
        for strategy in ("ddp", "fsdp2", "tp"):
            with self.subTest(strategy):
                rank, printed = record_rank(0, 4, LLAMA, strategy)
                self.assertEqual(f"peak {rank.peak_bytes()} bytes", printed.strip())

    # --- PT6: the same each time --------------------------------------------------------------

    def test_pt6_two_recordings_are_equal_byte_by_byte(self):
        for strategy in ("ddp", "fsdp2", "tp_sp"):
            with self.subTest(strategy):
                first, _ = record_rank(1, 4, LLAMA, strategy)
                second, _ = record_rank(1, 4, LLAMA, strategy)
                self.assertEqual(first.path.read_bytes(), second.path.read_bytes())

    # --- PT8: ranks that are expected to do the same ------------------------------------------

    def test_pt8_a_rank_that_does_something_else_is_named_if_it_is_recorded(self):
        done = record(8, self.folder, PROGRAMS / "odd_rank.py", options=("--ranks", "0,5"))
        self.assertEqual(done.returncode, 0, done.stderr)
        refused = replay(self.folder)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("E1386", refused.stderr)
        self.assertRegex(refused.stderr, "ranks 0 and 5")

    def test_pt8_the_result_says_how_many_ranks_were_recorded(self):
        done = record(8, self.folder, PROGRAMS / "odd_rank.py", options=("--ranks", "0,7"))
        self.assertEqual(done.returncode, 0, done.stderr)
        said = replay(self.folder)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertRegex(said.stdout, "2 of 8|6 of 8")

    # --- Values --------------------------------------------------------------------------------

    def test_values_are_those_of_the_script_or_are_listed(self):
        rank, printed = record_rank(0, 2, PROGRAMS / "values.py")
        self.assertEqual(printed.split(), ["7", "[2,", "3]", "1.0", "1.0", "False", "scaled"])
        reads = [note for note in rank.header["notes"] if "values.py" in note]
        self.assertEqual(len(reads), 3, rank.header["notes"])

    def test_scripts_find_what_a_cuda_build_has(self):
        rank, printed = record_rank(0, 1, PROGRAMS / "cuda_facts.py")
        self.assertEqual(rank.operations().count("masked_fill"), 1)
        self.assertEqual(printed.splitlines(), ["cuda:0 2", "8 False", "7"])

    def test_backward_runs_in_the_streams_of_forward(self):
        rank, _ = record_rank(0, 1, PROGRAMS / "cuda_facts.py")
        stream = {}  # Of each product, by its shape: forward, then the gradient of the weight.
        now = "u0"
        for word in rank.steps:
            now = word if word[0] == "u" else now
            if word[0] == "c":
                row = rank.tables["operation"][int(word[1:])]
                if row["kind"] == "matmul":
                    stream[tuple(row["shape"])] = now
        self.assertEqual(stream, {(8, 64, 64, 1): "u1", (64, 64, 8, 1): "u1"})

    # --- From the script to the time of a step -------------------------------------------------

    def test_each_strategy_has_a_step_time_on_each_machine(self):
        for strategy in ("ddp", "fsdp2", "hsdp", "tp", "tp_sp"):
            with self.subTest(strategy):
                world = 4 if strategy.startswith("tp") else 8  # There are four heads.
                done = record(world, self.folder, LLAMA, strategy)
                self.assertEqual(done.returncode, 0, done.stderr)
                times = []
                for system in ("dgx-a100", "dgx-h100"):
                    said = replay(self.folder, "--system", system, "--json")
                    self.assertEqual(said.returncode, 0, said.stderr)
                    times.append(json.loads(said.stdout)["step_time_ps"])
                self.assertGreater(times[0], times[1])

    # --- PT10: speed ---------------------------------------------------------------------------

    def test_pt10_says_how_fast_it_records(self):
        begin = time.monotonic()
        rank, _ = record_rank(0, 64, LLAMA, "fsdp2")
        seconds = time.monotonic() - begin
        print(f"PT10: {len(rank.steps)} steps recorded in {seconds:.1f} s, start included",
              file=sys.stderr)
        self.assertGreater(len(rank.steps), 1000)


if __name__ == "__main__":
    if not HAS_TORCH:
        print("PyTorch 2.6 is not installed here: ./dev torch")
        sys.exit(77)
    unittest.main(verbosity=2)
