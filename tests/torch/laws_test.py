"""What must hold of recorded PyTorch programs: laws PT1 to PT4, PT6 to PT8, and PT10.

It needs PyTorch 2.6 and a built command (SHARDSIM); `./dev torch` has both. Without them all is
skipped.
"""

import collections
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import own_strategies  # noqa: E402
import recordings  # noqa: E402
import verify_laws  # noqa: E402
from own_strategies import EXPECTED, Compared  # noqa: E402
from recordings import PROGRAMS, record, record_rank, replay, torch_verb  # noqa: E402

LLAMA = PROGRAMS / "llama.py"
# Of programs/llama.py: vocabulary, width, width of the MLP, layers, tokens of a step.
VOCAB, HIDDEN, FFN, LAYERS, TOKENS = 512, 256, 688, 4, 4 * 128
BLOCK = 4 * HIDDEN * HIDDEN + 3 * HIDDEN * FFN + 2 * HIDDEN
PARAMETERS = LAYERS * BLOCK + 2 * VOCAB * HIDDEN + HIDDEN
STEP = 2  # The last of three.

HAS_TORCH = importlib.util.find_spec("torch") is not None and "SHARDSIM" in os.environ


def counted(record_, step=STEP):
    return collections.Counter(record_.calls(step))


def soon(condition, seconds=120.0):
    """The value of a condition when it is true; the last one if that takes too long."""
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return value


def is_gone(process):
    """Whether it has ended, be it that nobody has asked for its status yet."""
    stat = pathlib.Path("/proc", process, "stat")
    try:
        return stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] in "XZ"
    except OSError:
        return True


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

    def test_pt2_strategies_here_send_what_those_of_pytorch_do_but_for_what_is_known(self):
        for name, (_, words, *_) in own_strategies.STRATEGIES.items():
            if words[0] == "pp":
                continue
            with self.subTest(name):
                both = Compared(name, self.folder)
                self.assertEqual(both.differences[0], {
                    call: (theirs, ours) for call, theirs, ours, _ in EXPECTED[name]})

    def test_pt2_schedules_here_are_those_of_pytorch(self):
        boundary = TOKENS // 4 * HIDDEN * 2
        for name, (ranks, words, split, _) in own_strategies.STRATEGIES.items():
            if words[0] != "pp":
                continue
            with self.subTest(name):
                folder = self.folder / name
                folder.mkdir()
                both = Compared(name, folder)
                self.assertEqual(both.differences, {rank: {} for rank in range(ranks)})
                for theirs, ours in both.orders.values():
                    self.assertEqual(theirs, ours)
                # Each microbatch goes over each boundary and back.
                messages = 2 * 4 * (ranks * split.get("vpp", 1) - 1)
                self.assertEqual(both.sent, {("send", boundary, "bf16", 2): messages,
                                             ("recv", boundary, "bf16", 2): messages})

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

    def test_the_host_waits_for_copies_that_may_block(self):
        rank, _ = record_rank(0, 1, PROGRAMS / "copies.py")
        done = iter(rank.operations())
        steps = [next(done) if step[0] == "c" else "waits" for step in rank.steps
                 if step[0] in "cs"]
        self.assertEqual(steps[-8:], ["add", "copy", "copy", "copy", "waits", "copy", "copy", "waits"])

    def test_a_rank_has_one_gpu_whatever_its_number_is(self):
        program = PROGRAMS / "own_device.py"
        second, printed = record_rank(1, 2, program)
        self.assertEqual(printed.splitlines(), [
            "True True True torch.float16", "1 1", "12",
            "tensor([1., 1., 1., 1.], device='cuda:0')"])
        first, _ = record_rank(0, 2, program)
        self.assertEqual(first.steps, second.steps)

    def test_a_mask_whose_values_are_not_known_is_refused_with_its_line(self):
        done = record(2, self.folder, PROGRAMS / "own_device.py", "mask",
                      options=("--ranks", "0"))
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"shardsim: aten::nonzero at .*own_device\.py:21 makes as many ")

    # --- Modules -------------------------------------------------------------------------------

    def test_operators_of_fsdp2_have_their_modules(self):
        rank, _ = record_rank(0, 8, LLAMA, "fsdp2")
        places = rank.places(STEP)
        # In no module are: the copy of the tokens, the loss and its first gradient.
        self.assertEqual([name for phase, module, name in places
                          if phase == "forward" and not module],
                         ["copy", "copy", "_log_softmax", "nll_loss_forward", "fill"])
        backward = [module for phase, module, _ in places if phase == "backward"]
        self.assertGreater(len(backward), 200)
        self.assertGreaterEqual(sum(map(bool, backward)) / len(backward), 0.95)
        self.assertEqual({name for phase, _, name in places if phase == "optimizer"},
                         {"_fused_adamw", "_foreach_add"})
        # Layers do the same, each in its own modules.
        products = collections.Counter((phase, module) for phase, module, name in places
                                       if name == "mm")
        expected = {("forward", "head"): 1, ("backward", "head"): 2}
        for layer in range(LAYERS):
            for part in ("attention.q", "attention.k", "attention.v", "attention.out", "ffn.gate",
                         "ffn.up", "ffn.down"):
                module = f"blocks.{layer}.{part}"
                expected |= {("forward", module): 1, ("backward", module): 2}
        self.assertEqual(products, expected)

    def test_what_backward_computes_again_has_its_modules_too(self):
        for kind in ("reentrant", "other"):
            with self.subTest(kind):
                rank, _ = record_rank(0, 1, PROGRAMS / "recomputed.py", kind)
                places = rank.places(STEP)
                products = collections.Counter((phase, module) for phase, module, name in places
                                               if name == "mm")
                again = {(phase, module) for phase, module, _ in places if phase == "recomputation"}
                self.assertEqual(products[("recomputation", "blocks.1.attention.q")], 1)
                self.assertEqual(products[("backward", "blocks.1.attention.q")], 2)
                self.assertEqual(products[("forward", "blocks.1.attention.q")], 1)
                self.assertTrue(all(module.startswith("blocks.") for _, module in again))
        rank, _ = record_rank(0, 1, PROGRAMS / "recomputed.py", "compiled")
        self.assertIn(("forward", "blocks.0.ffn.up", "mm"), rank.places(STEP))

    # --- Kernels -------------------------------------------------------------------------------

    def test_what_cuda_has_one_kernel_for_is_one(self):
        rank, _ = record_rank(0, 4, LLAMA, "tp")
        counts = collections.Counter(rank.operations(STEP))
        self.assertEqual((counts["silu"], counts["silu_backward"], counts["sigmoid"]),
                         (LAYERS, LAYERS, 0))

    def test_attention_with_fewer_key_heads_is_one_kernel_and_copies_none(self):
        rank, _ = record_rank(0, 1, PROGRAMS / "heads.py")
        head = 2 * 256 * 64 * 2  # Bytes of a head of both sequences.
        found = {row["name"]: row["bytes"] for row in rank.rows("c", "operation")
                 if row.get("family", "").startswith("attention")}
        forward, backward = found.values()
        self.assertEqual(len(found), 2)
        # What the softmax leaves of each row, in fp32, and the state of random numbers.
        rows = 2 * 256 * 8 * 4 + 16
        self.assertEqual(forward, (2 * 8 + 2 * 2) * head + rows)
        self.assertEqual(backward, (4 * 8 + 4 * 2) * head + rows)
        self.assertEqual(set(rank.operations()) - set(found),
                         {"normal", "fill"})

    def test_memory_that_is_free_is_not_read(self):
        # What is freed is overwritten at once.
        overwritten = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.perturb=165"}
        with unittest.mock.patch.dict(os.environ, overwritten):
            rank, _ = record_rank(0, 1, PROGRAMS / "two_results.py")
        self.assertEqual(rank.operations().count("max"), 3)
        self.assertEqual(rank.operations().count("topk"), 3)

    def test_the_guides_program_of_three_dimensions_has_a_step_time(self):
        said = {}
        for words in ((), ("--loss-inside",)):
            done = torch_verb("--world", "8", "-q", "--json",
                              recordings.ROOT / "docs/guide/torch/llama_3d.py",
                              "--tp", "2", "--layers", "2", "--microbatches", "2", *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            said[words] = json.loads(done.stdout)
        whole = said[()]
        self.assertGreater(whole["bubble_ps"], 0)
        modules = {row["module"] for row in whole["kernels"]["modules"]}
        self.assertTrue(any(module.startswith("blocks.*.attention") for module in modules), modules)
        # PyTorch's schedule keeps the logits of both microbatches, in bf16, and joins them.
        logits = 8192 * 128256 * 2
        saved = whole["memory_peak_bytes"] - said["--loss-inside",]["memory_peak_bytes"]
        self.assertGreaterEqual(saved, 2 * logits)

    def test_the_middle_of_a_v_is_on_one_rank_which_copies(self):
        boundary = TOKENS // 4 * HIDDEN * 2
        done = record(4, self.folder / "zbv", LLAMA, "pp", "zbv")
        self.assertEqual(done.returncode, 0, done.stderr)
        sent = collections.Counter()
        for path in sorted((self.folder / "zbv").glob("*.jsonl")):
            sent += counted(recordings.Record(path))
        self.assertEqual(sent[("send", boundary, "bf16", 2)], 2 * 4 * (8 - 2))
        self.assertEqual(sent[("recv", boundary, "bf16", 2)], 2 * 4 * (8 - 2))
        self.assertEqual(replay(self.folder / "zbv").returncode, 0)

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

    # --- The verb --------------------------------------------------------------------------------

    def test_the_verb_records_and_prices_as_the_recorder_and_replay_do(self):
        done = torch_verb("--world", "8", "--system", "dgx-a100", "--json", "--out", self.folder, LLAMA,
                          "ddp")
        self.assertEqual(done.returncode, 0, done.stderr)
        said = replay(self.folder, "--system", "dgx-a100", "--json")
        self.assertEqual(done.stdout, said.stdout)
        self.assertGreater(json.loads(done.stdout)["step_time_ps"], 0)
        by_hand = record(8, self.folder / "by_hand", LLAMA, "ddp", options=("--system", "dgx-a100"))
        self.assertEqual(by_hand.returncode, 0, by_hand.stderr)
        for path in (self.folder / "by_hand").glob("*.jsonl"):
            self.assertEqual(path.read_bytes(), (self.folder / path.name).read_bytes())

    def test_the_verb_tells_a_script_its_gpu_and_its_words(self):
        words = ("--world", "3", "[1,2]", "", "--", "-h")
        done = torch_verb("--world", "8", "--system", "dgx-a100", "--set", "system.gpus_per_node=4",
                          PROGRAMS / "gpu.py", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(str(["NVIDIA A100 SXM 80GB", (8, 0), 80 << 30, 108, 4, *words]), done.stderr)
        self.assertIn("on 2 x 4 NVIDIA DGX A100", done.stdout)

    def test_a_script_that_asks_what_the_machine_does_not_say_fails_with_the_reason(self):
        done = torch_verb("--world", "8", "--set", "system.device.kernels=none", PROGRAMS / "gpu.py")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        self.assertIn("does not say its GPU's compute capability", done.stderr)

    def test_no_rank_outlives_a_command_that_is_killed(self):
        script, told = self.folder / "sleeps.py", self.folder / "rank"
        script.write_text("import os, pathlib, sys, time\n"
                          "pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))\n"
                          "time.sleep(600)\n", encoding="utf-8")
        with subprocess.Popen([os.environ["SHARDSIM"], "torch", "--world", "1", script, told],
                              stderr=subprocess.DEVNULL) as verb:
            rank = soon(lambda: told.is_file() and told.read_text(encoding="utf-8"))
            verb.kill()
        self.assertTrue(rank)
        self.assertTrue(soon(lambda: is_gone(rank)))

    # --- PT10: speed ---------------------------------------------------------------------------

    def test_pt10_says_how_fast_it_records(self):
        begin = time.monotonic()
        rank, _ = record_rank(0, 64, LLAMA, "fsdp2")
        seconds = time.monotonic() - begin
        print(f"PT10: {len(rank.steps)} steps recorded in {seconds:.1f} s, start included",
              file=sys.stderr)
        self.assertGreater(len(rank.steps), 1000)


@unittest.skipUnless(HAS_TORCH, "PyTorch 2.6 is not installed here: ./dev torch")
class VerifyTest(verify_laws.VerifyTest):
    """Scripts that train with real numbers."""


if __name__ == "__main__":
    if not HAS_TORCH:
        print("PyTorch 2.6 is not installed here: ./dev torch")
        sys.exit(77)
    unittest.main(verbosity=2)
