"""What must hold of PyTorch programs that train with real numbers: laws PT3 and PT7. Run by laws_test.py.
"""

import json
import os
import re
import subprocess
import time
import unittest

import recordings
from recordings import PROGRAMS

WRONG = PROGRAMS / "wrong.py"
TRAINED = PROGRAMS / "trained.py"
RUNS = re.compile(r'# here$')


def verify(world, script, *arguments, options=()):
    return subprocess.run(
        [os.environ["SHARDSIM"], "torch", "--verify", "--world", str(world), "--steps", "0", *options,
         str(script), *arguments], env=recordings.environment(), capture_output=True, text=True,
        check=False, timeout=300)


def line_of(mistake):
    """The number of the mistake's line in wrong.py."""
    inside = False
    for number, line in enumerate(WRONG.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("def "):
            inside = line.startswith(f"def {mistake}(")
        if inside and RUNS.search(line):
            return number
    raise AssertionError(f"{mistake} has no line")


# By mistake: exit code, the error's code, and the rank that is named.
MISTAKES = {
    "skips_a_collective": (4, "COLL_MISSING", "rank 2: missing"),
    "order_of_two_groups": (4, "COLL_GROUP", "rank 1: all_reduce"),
    "sizes_differ": (4, "COLL_COUNT", "rank 3: all_reduce sum fp32 x 4"),
    "types_differ": (4, "COLL_DTYPE", "rank 1: all_reduce sum fp64"),
    "no_wait": (1, "E1395", "a result is read that all_reduce of group world"),
    "changed_too_early": (1, "E1395", "a buffer is changed that all_gather of group world"),
    "waits_on_another_stream": (1, "E1395", "not been waited for on this stream"),
    "send_without_receive": (4, "DEADLOCK", "rank 0: send fp32 x 8 to 3"),
    "raises": (1, "E1395", "rank 1 failed: ValueError: a bad batch"),
    "exits": (4, "COLL_MISSING", "rank 3: missing: has finished"),
    "dies": (5, "E1393", "rank 3 failed: the process exited with 9"),
    "loops": (4, "E1394", "rank 2 failed"),
    "output_does_not_fit": (1, "E1395", "24 elements are not 8 for each of 4 members"),
    "not_contiguous": (1, "E1395", "is not contiguous; NCCL refuses it"),
    "splits_do_not_add_up": (1, "E1395", "the splits have 7 rows and the tensor 8"),
    "other_members": (4, "E1397", "it forms group 1 of ranks"),
}


class VerifyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # The recorder's shared object is built now, once, so that no test's time has it.
        verify(1, WRONG, "no_wait")

    def test_pt7_wrong_programs_are_named_with_rank_call_and_line(self):
        for mistake, (status, code, who) in MISTAKES.items():
            with self.subTest(mistake):
                done = verify(4, WRONG, mistake, options=("--limit", "20"))
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(code, done.stderr)
                self.assertIn(who, done.stderr)
                if mistake != "dies":  # It has left no line.
                    self.assertIn(f"wrong.py:{line_of(mistake)}", done.stderr)

    def test_a_deadlock_on_8_ranks_is_named_within_30_seconds(self):
        begin = time.monotonic()
        done = verify(8, WRONG, "send_without_receive")
        self.assertLess(time.monotonic() - begin, 30.0)
        self.assertIn(f"wrong.py:{line_of('send_without_receive')}", done.stderr)

    def test_pt3_strategies_train_what_one_device_does(self):
        # Sums of fp32 in another order differ by a few units of 2^-24 for each of some hundred terms;
        # five steps of SGD carry that on without amplifying it.
        tolerance = 1e-5
        ones = {}
        for strategy, world in (("ddp", 4), ("fsdp2", 4), ("hsdp", 4), ("tp", 4), ("gpipe", 4),
                                ("1f1b", 2), ("interleaved_1f1b", 2)):
            with self.subTest(strategy):
                # Pipelines add up the gradients of microbatches, and only data parallelism clips.
                alike = {"fsdp2": "ddp", "hsdp": "ddp", "gpipe": "1f1b",
                         "interleaved_1f1b": "1f1b"}.get(strategy, strategy)
                if alike not in ones:
                    ones[alike] = self.trained(1, alike)
                one, many = ones[alike], self.trained(world, strategy)
                self.assertGreater(one["losses"][0] - one["losses"][-1], 0.01)
                for mine, other in zip(one["losses"], many["losses"], strict=True):
                    self.assertAlmostEqual(mine, other, delta=tolerance * abs(mine))
                self.assertEqual(set(one["parameters"]), set(many["parameters"]))
                for name, values in one["parameters"].items():
                    most = max(map(abs, values))
                    for mine, other in zip(values, many["parameters"][name], strict=True):
                        self.assertAlmostEqual(mine, other, delta=tolerance * most, msg=name)

    def test_correct_programs_of_bf16_raise_no_alarm(self):
        for words in (["fsdp2_no_reshard"], ["tp_sp"], ["pp", "looped_bfs"],
                      ["pp", "interleaved_zero_bubble"], ["pp", "zbv"]):
            with self.subTest(words):
                done = verify(4, PROGRAMS / "llama.py", *words)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("4 ranks trained with real numbers", done.stdout)

    def test_correct_programs_that_look_wrong_get_their_values(self):
        done = verify(4, PROGRAMS / "right.py")
        self.assertEqual(done.returncode, 0, done.stderr)

    def trained(self, world, strategy):
        done = verify(world, TRAINED, strategy)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(next(line for line in done.stderr.splitlines() if line.startswith("{")))
