"""Writes what was recorded of a rank as a file of docs/guide/program-format.md ("records")."""

import collections
import heapq
import json

from shardsim.torch import prices

(OP, ALLOCATE, RELEASE, CALL, WAIT, RECORD, BLOCK, SYNCHRONIZE, SYNCHRONIZE_EVENT, READ,
 MARK) = range(11)
STEPS_IN_LINE = 200
PHASES = ("", "forward", "recomputation", "backward", "optimizer")  # native/device.hpp
PARTIAL = ".partial"  # Behind the name of a record whose rank failed.
SCRATCH = "scratch"  # A stream on which only waiting happens.


class Slots:
    """Each thing has the lowest number that is free."""

    def __init__(self):
        self.free = []
        self.of = {}

    def take(self, key):
        self.of[key] = heapq.heappop(self.free) if self.free else len(self.of)
        return self.of[key]

    def put_back(self, key):
        slot = self.of.pop(key)
        heapq.heappush(self.free, slot)
        return slot


class Rows:
    """Rows of the file's tables, each written once."""

    def __init__(self):
        self.lines = []
        self.numbers = {}
        self.counts = collections.Counter()

    def number(self, table, row):
        text = json.dumps({table: row})
        if text not in self.numbers:
            self.numbers[text] = self.counts[table]
            self.counts[table] += 1
            self.lines.append(text)
        return self.numbers[text]


class Waits:
    """Which events stand for works, and how many streams wait for each work."""

    def __init__(self, entries, group_streams):
        self.work_of_event = []  # By entry, for those that record or wait for an event.
        self.streams = collections.defaultdict(set)  # By work.
        last = {}
        events = {}
        for kind, stream, _, number, amount in entries:
            work = None
            if kind == CALL:
                last[amount] = number
            elif kind == RECORD:
                events[number] = last.get(stream, 0) if stream >= group_streams else None
                work = events[number]
            elif kind in (BLOCK, SYNCHRONIZE_EVENT):
                work = events.get(number, 0)
                if work:
                    self.streams[work].add(stream if kind == BLOCK else SCRATCH)
            elif kind == WAIT:
                self.streams[number].add(stream)
            # None: an event of the device. 0: nothing to wait for.
            self.work_of_event.append(work)


class Writer:
    """Turns the entries of the log into steps, one after another."""

    def __init__(self, native, category_of):
        self.native = native
        self.category_of = category_of  # By allocation; the others are activations.
        self.entries = native.entries()
        self.waits = Waits(self.entries, native.GROUP_STREAMS)
        self.rows = Rows()
        self.steps = []
        self.allocations = Slots()
        self.works = Slots()
        self.streams = {0: 0}
        self.events = {}
        self.stream = 0
        self.waited = set()  # Works.
        self.group_of_work = {}
        self.unended = self.step_without_end()
        self.op_rows = {}
        self.place_marks = {0: ""}  # By place; it is behind the operation's row.

    def write(self):
        tables = {"op": self.native.ops(), "call": self.native.calls(),
                  "mark": self.native.marks()}
        act = {OP: lambda e: self.compute(e, tables["op"]), ALLOCATE: self.allocate,
               RELEASE: self.release, CALL: lambda e: self.post(e, tables["call"]),
               WAIT: lambda e: self.await_work(e[3], e[1]), SYNCHRONIZE: self.synchronize,
               MARK: lambda e: self.mark(e[1], tables["mark"][e[2]])}
        for at, entry in enumerate(self.entries):
            kind = entry[0]
            if kind in act:
                act[kind](entry)
            elif kind in (RECORD, BLOCK, SYNCHRONIZE_EVENT):
                self.pass_event(entry, self.waits.work_of_event[at])
        for work in sorted(self.works.of):
            self.await_work(work, 0)
        self.use(0)

    def step(self, word):
        self.steps.append(word)

    def step_without_end(self):
        """The mark of a step that has begun and not ended, as the last one mostly has."""
        marks = [self.native.marks()[entry[2]] for entry in self.entries if entry[0] == MARK]
        return marks[-1] if marks and json.loads(marks[-1])["kind"] == "step_begins" else None

    # --- Streams and events --------------------------------------------------------------------

    def use(self, stream):
        number = self.streams.setdefault(stream, len(self.streams))
        if number != self.stream:
            self.step(f"u{number}")
            self.stream = number

    def event(self, key):
        return self.events.setdefault(key, len(self.events))

    def pass_event(self, entry, work):
        kind, stream, _, number, _ = entry
        if kind == RECORD:
            if work is not None:
                return  # It is the work that is waited for.
            self.use(stream)
            return self.step(f"e{self.event(number)}")
        if work == 0 or (work is None and number not in self.events):
            return  # Never recorded.
        waiting = stream if kind == BLOCK else SCRATCH
        if work is not None:
            self.await_work(work, waiting)
        else:
            self.use(waiting)
            self.step(f"b{self.event(number)}")
        if kind == SYNCHRONIZE_EVENT:
            self.use(SCRATCH)
            self.step("s")

    def await_work(self, work, stream):
        """A work is waited for once. If several streams do, they wait for an event that stands for
        it, in a stream where only works of its group are waited for."""
        many = len(self.waits.streams[work]) > 1
        if work not in self.waited:
            self.waited.add(work)
            self.use((SCRATCH, self.group_of_work[work]) if many else stream)
            self.step(f"w{self.works.put_back(work)}")
            if many:
                self.step(f"e{self.event(('work', work))}")
        if many:
            self.use(stream)
            self.step(f"b{self.event(('work', work))}")

    def synchronize(self, entry):
        if entry[1] not in self.streams:
            return  # Nothing was done there.
        self.use(entry[1])
        self.step("s")

    # --- Work ----------------------------------------------------------------------------------

    def place_mark(self, place):
        if place not in self.place_marks:
            number, phase = divmod(place, len(PHASES))
            row = {"phase": PHASES[phase]} if phase else {}
            if number:
                row["module"] = self.native.modules()[number - 1]
            self.place_marks[place] = f":{self.rows.number('place', row)}"
        return self.place_marks[place]

    def compute(self, entry, ops):
        _, stream, row, place, _ = entry
        if row not in self.op_rows:
            self.op_rows[row] = self.rows.number("operation", prices.row_of(ops[row]))
        self.use(stream)
        self.step(f"c{self.op_rows[row]}{self.place_mark(place)}")

    def allocate(self, entry):
        _, _, _, number, amount = entry
        row = self.rows.number("allocation", {
            "category": self.category_of.get(number, "activations"), "bytes": amount})
        self.step(f"a{row}:{self.allocations.take(number)}")

    def release(self, entry):
        if entry[3] in self.allocations.of:
            self.step(f"r{self.allocations.put_back(entry[3])}")

    def post(self, entry, calls):
        _, stream, row, number, group = entry
        self.group_of_work[number] = group
        call = self.rows.number("call", json.loads(calls[row]))
        self.use(stream)
        self.step(f"p{call}:{self.works.take(number)}")

    def mark(self, stream, text):
        if text == self.unended:
            return
        if stream != 0:  # Marks are moments of the first stream.
            self.use(stream)
            self.step(f"e{self.event('mark')}")
            self.use(0)
            self.step(f"b{self.event('mark')}")
        self.use(0)
        self.step(f"m{self.rows.number('mark', json.loads(text))}")


def write(path, native, groups, name, notes, category_of):
    """Writes the record of this rank."""
    writer = Writer(native, category_of)
    writer.write()
    header = {"shardsim_program": 1, "name": name, "ranks": groups.world,
              "recorded": groups.rank, "notes": notes}
    lines = [json.dumps(header)]
    lines += [json.dumps({"group": {"name": key, "members": members}})
              for key, members in groups.members.items()]
    lines += writer.rows.lines
    lines.append(json.dumps({"program": {"rank": groups.rank}}))
    for begin in range(0, len(writer.steps), STEPS_IN_LINE):
        lines.append(json.dumps({"steps": " ".join(writer.steps[begin:begin + STEPS_IN_LINE])}))
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
