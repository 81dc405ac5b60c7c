"""The log of a rank as steps of a program file. No PyTorch is needed: the log is given."""

import pathlib
import sys
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

from shardsim.torch import program  # noqa: E402
from shardsim.torch.program import (  # noqa: E402
    ALLOCATE, BLOCK, CALL, MARK, OP, RECORD, RELEASE, SYNCHRONIZE, SYNCHRONIZE_EVENT, WAIT)

GROUP = 1 << 32  # The stream of a group.
BEGIN = '{"kind": "step_begins", "step": 0}'
END = '{"kind": "step_ends", "step": 0}'
NEXT = '{"kind": "step_begins", "step": 1}'


def steps_of(entries, marks=(), category_of=None):
    """Entries are (kind, stream, row, number, amount)."""
    native = types.SimpleNamespace(
        entries=lambda: [(*entry, *([0] * (5 - len(entry)))) for entry in entries],
        ops=lambda: ["aten::relu i:Float[4;1] o:Float[4;1]", "aten::neg i:Float[8;1] o:Float[8;1]"],
        calls=lambda: ['{"group": "world", "kind": "barrier", "dtype": "int8", "count": 0}'],
        marks=lambda: list(marks), modules=lambda: ["blocks.0", "blocks.1"], GROUP_STREAMS=GROUP)
    writer = program.Writer(native, category_of or {})
    writer.write()
    return " ".join(writer.steps), writer


class ProgramTest(unittest.TestCase):
    def test_work_goes_to_its_stream_and_the_program_ends_on_the_first(self):
        steps, _ = steps_of([(OP, 0, 0), (OP, 7, 1), (OP, 7, 0), (OP, 0, 1)])
        self.assertEqual(steps, "c0 u1 c1 c0 u0 c1")
        self.assertEqual(steps_of([(OP, 7, 0)])[0], "u1 c0 u0")

    def test_a_stream_waits_for_an_event_of_another(self):
        steps, _ = steps_of([(OP, 0, 0), (RECORD, 0, 0, 5), (BLOCK, 3, 0, 5), (OP, 3, 1)])
        self.assertEqual(steps, "c0 e0 u1 b0 c1 u0")

    def test_an_operator_has_the_row_of_its_module_and_phase(self):
        block_0, block_1, optimizer = (module * 5 + phase for module, phase in ((1, 1), (2, 3), (0, 4)))
        steps, writer = steps_of([(OP, 0, 0, block_0), (OP, 0, 1, block_1), (OP, 0, 0, block_0),
                                  (OP, 0, 0, optimizer), (OP, 0, 0)])
        self.assertEqual(steps, "c0:0 c1:1 c0:0 c0:2 c0")
        # A row for each place, however often something is done there.
        self.assertEqual([line for line in writer.rows.lines if "place" in line], [
            '{"place": {"phase": "forward", "module": "blocks.0"}}',
            '{"place": {"phase": "backward", "module": "blocks.1"}}',
            '{"place": {"phase": "optimizer"}}'])

    def test_an_event_that_was_never_recorded_is_none(self):
        self.assertEqual(steps_of([(BLOCK, 0, 0, 5), (OP, 0, 0)])[0], "c0")

    def test_memory_takes_the_lowest_slot_that_is_free(self):
        steps, _ = steps_of([(ALLOCATE, 0, 0, 10, 64), (ALLOCATE, 0, 0, 11, 64),
                             (RELEASE, 0, 0, 10), (ALLOCATE, 0, 0, 12, 64), (ALLOCATE, 0, 0, 13, 8)])
        self.assertEqual(steps, "a0:0 a0:1 r0 a0:0 a1:2")

    def test_memory_of_parameters_is_told_apart(self):
        _, writer = steps_of([(ALLOCATE, 0, 0, 10, 64), (ALLOCATE, 0, 0, 11, 64)],
                             category_of={11: "params"})
        self.assertEqual(writer.rows.lines, [
            '{"allocation": {"category": "activations", "bytes": 64}}',
            '{"allocation": {"category": "params", "bytes": 64}}'])

    def test_a_work_is_waited_for_where_the_program_does(self):
        steps, _ = steps_of([(CALL, 0, 0, 1, GROUP), (OP, 0, 0), (WAIT, 0, 0, 1), (OP, 0, 1)])
        self.assertEqual(steps, "p0:0 c0 w0 c1")

    def test_a_work_that_nobody_waits_for_is_waited_for_at_the_end(self):
        self.assertEqual(steps_of([(CALL, 0, 0, 1, GROUP), (OP, 0, 0)])[0], "p0:0 c0 w0")

    def test_a_work_is_waited_for_once_and_again_on_its_stream_costs_nothing(self):
        steps, _ = steps_of([(CALL, 0, 0, 1, GROUP), (WAIT, 0, 0, 1), (WAIT, 0, 0, 1), (OP, 0, 0)])
        self.assertEqual(steps, "p0:0 w0 c0")

    def test_streams_that_wait_for_one_work_do_not_wait_for_each_other(self):
        steps, _ = steps_of([(CALL, 0, 0, 1, GROUP), (WAIT, 4, 0, 1), (WAIT, 0, 0, 1), (OP, 0, 0)])
        self.assertEqual(steps, "p0:0 u1 w0 e0 u2 b0 u0 b0 c0")

    def test_an_event_in_a_groups_stream_is_its_last_work(self):
        steps, _ = steps_of([(CALL, 0, 0, 1, GROUP), (CALL, 0, 0, 2, GROUP), (RECORD, GROUP, 0, 9),
                             (BLOCK, 0, 0, 9), (OP, 0, 0)])
        self.assertEqual(steps, "p0:0 p0:1 w1 c0 w0")

    def test_the_host_waits_for_streams_and_events(self):
        steps, _ = steps_of([(OP, 0, 0), (RECORD, 0, 0, 5), (OP, 0, 1), (SYNCHRONIZE_EVENT, 0, 0, 5),
                             (OP, 0, 0), (SYNCHRONIZE, 0)])
        self.assertEqual(steps, "c0 e0 c1 u1 b0 s u0 c0 s")

    def test_a_stream_that_did_nothing_is_not_waited_for(self):
        self.assertEqual(steps_of([(SYNCHRONIZE, 8), (OP, 0, 0)])[0], "c0")

    def test_a_mark_in_another_stream_waits_for_it(self):
        self.assertEqual(steps_of([(OP, 7, 0), (MARK, 7, 0)], marks=(END,))[0], "u1 c0 e0 u0 b0 m0")

    def test_a_step_that_does_not_end_has_no_mark(self):
        entries = [(MARK, 0, 0), (OP, 0, 0), (MARK, 0, 1), (MARK, 0, 2), (OP, 0, 1)]
        self.assertEqual(steps_of(entries, marks=(BEGIN, END, NEXT))[0], "m0 c0 m1 c1")


if __name__ == "__main__":
    unittest.main()
