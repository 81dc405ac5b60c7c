"""Which ranks must be recorded. No PyTorch is needed: records are given."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

from shardsim.torch import classes  # noqa: E402


def record(world, groups, with_messages=(), rank=0, rows=()):
    lines = [{"shardsim_program": 1, "name": "test", "ranks": world, "recorded": rank}]
    lines += [{"group": {"name": name, "members": members}} for name, members in groups.items()]
    lines += [{"call": {"group": name, "kind": "send", "messages": []}} for name in with_messages]
    lines += rows
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("\n".join(map(json.dumps, lines)))
        file.flush()
        return classes.Record(file.name)


def grid(pp, dp):
    """Rank = stage * dp + replica, as a mesh (pp, dp) has it."""
    groups = {f"pp{i}": [stage * dp + i for stage in range(pp)] for i in range(dp)}
    return groups | {f"dp{i}": [i * dp + k for k in range(dp)] for i in range(pp)}


def broadcasts(group, root, steps="p0:0 w0"):
    return [{"call": {"group": group, "kind": "broadcast", "root": root}},
            {"mark": {"kind": "step_begins"}}, {"mark": {"kind": "step_ends"}}, {"steps": steps}]


class ClassesTest(unittest.TestCase):
    def test_without_messages_a_few_ranks_are_compared(self):
        ranks, stands = classes.choose(record(64, grid(1, 64)), checks=2)
        self.assertEqual(len(ranks), 4)
        self.assertEqual([stands[rank] for rank in ranks], ranks)
        self.assertEqual({stands[rank] for rank in range(64) if rank not in ranks}, {0})
        self.assertEqual((ranks[0], ranks[-1]), (0, 63))
        self.assertEqual(classes.choose(record(1, {}), checks=2)[0], [0])

    def test_the_choice_is_the_same_each_time(self):
        self.assertEqual(classes.choose(record(64, {}), 2), classes.choose(record(64, {}), 2))

    def test_a_pipeline_is_recorded_from_end_to_end_and_a_second_to_compare(self):
        ranks, stands = classes.choose(record(8, grid(4, 2), ["pp0"]), checks=2)
        self.assertEqual(ranks, list(range(8)))
        self.assertEqual(stands, [0, 1, 2, 3, 4, 5, 6, 7])

    def test_ranks_of_other_pipelines_do_what_those_in_their_places_do(self):
        ranks, stands = classes.choose(record(32, grid(4, 8), ["pp0"]), checks=2)
        self.assertEqual(ranks, [0, 7, 8, 15, 16, 23, 24, 31])
        self.assertEqual(stands[:8], [0, 0, 0, 0, 0, 0, 0, 7])
        self.assertEqual(stands[8:16], [8, 8, 8, 8, 8, 8, 8, 15])

    def test_of_long_pipelines_no_second_one_is_recorded(self):
        ranks, stands = classes.choose(record(64, grid(16, 4), ["pp0"]), checks=2)
        self.assertEqual(ranks, list(range(0, 64, 4)))
        self.assertEqual(stands[63], 60)

    def test_messages_over_all_ranks_need_all_ranks(self):
        ranks, stands = classes.choose(record(4, {}, ["world"]), checks=2)
        self.assertEqual(ranks, [0, 1, 2, 3])
        self.assertEqual(stands, [0, 1, 2, 3])

    def test_ranks_of_each_kind_of_root_are_recorded(self):
        groups = {f"tp{i}": [2 * i, 2 * i + 1] for i in range(16)}
        rows = broadcasts("tp0", 0)
        # Three of the kinds of the first and the last rank.
        ranks, stands = classes.choose(record(32, groups, rows=rows), checks=2)
        self.assertEqual(ranks, [0, 1, 2, 3, 4, 31])
        self.assertEqual([stands[rank] for rank in ranks], ranks)
        # Roots at two places are two kinds.
        groups = {f"tp{i}": [4 * i + j for j in range(4)] for i in range(8)}
        rows = [*broadcasts("tp0", 0)[:1], *broadcasts("tp0", 1)[:1], {"steps": "p0:0 w0 p1:0 w0"}]
        ranks, _ = classes.choose(record(32, groups, rows=rows), checks=0)
        self.assertEqual(ranks, [0, 1, 2, 3, 4, 5, 8, 31])

    def test_pipelines_of_each_kind_of_root_are_recorded(self):
        groups = {f"tp{i}": [2 * i, 2 * i + 1] for i in range(16)}
        groups |= {f"pp{i}": [i, i + 16] for i in range(16)}
        rows = broadcasts("tp0", 0, "p1:0 w0")
        ranks, _ = classes.choose(record(32, groups, ["pp0"], rows=rows), checks=2)
        self.assertEqual(ranks, [0, 1, 2, 3, 4, 15, 16, 17, 18, 19, 20, 31])
        # Too long for all of them: the last, as without roots.
        groups = {f"tp{i}": [2 * i, 2 * i + 1] for i in range(32)}
        groups |= {f"pp{i}": list(range(i, 64, 8)) for i in range(8)}
        ranks, _ = classes.choose(record(64, groups, ["pp0"], rows=rows), checks=2)
        self.assertEqual(ranks, sorted([*range(0, 64, 8), *range(7, 64, 8)]))

    def test_roots_count_in_the_last_step_only(self):
        groups = {f"tp{i}": [4 * i + j for j in range(4)] for i in range(16)}
        rows = broadcasts("tp0", 1, "p0:0 w0 m0 m1")
        self.assertEqual(record(64, groups, rows=rows).roots, {})
        rows = broadcasts("tp0", 1, "m0 m1 m0 p0:0 w0 m1 p0:0 w0")
        self.assertEqual(record(64, groups, rows=rows).roots, {"tp0": {1}})
        self.assertEqual(len({rank % 4 == 1 for rank in classes.choose(
            record(64, groups, rows=rows), checks=0)[0]}), 2)
        # The root of all ranks is one rank.
        self.assertEqual(len(classes.choose(
            record(64, {}, rows=broadcasts("world", 0)), checks=0)[0]), 2)


if __name__ == "__main__":
    unittest.main()
