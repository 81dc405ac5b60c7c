"""Which ranks must be recorded so that each rank of the world does what a recorded one does.

Ranks that send each other messages (pipelines) differ by their places in the groups over which the
messages go. All others are expected to do the same, each in its own groups; a few more are recorded
to see whether that is so. Roots of a step's calls, such as ranks that read data for their groups,
may do more than others: two of each kind are recorded, and three of those of the first and the last
rank, which alone may do more for another reason, such as a log.
"""

import json
import random

MOST_CHECKED = 16  # Ranks that are recorded, if it takes more than one of each place,
MOST_OF_ROOTS = 32  # and if roots are among them.


class Record:
    """Groups, messages and roots of one rank's file."""

    def __init__(self, path):
        self.groups = {}
        self.with_messages = set()
        self.roots = {}  # By group, places of the roots of the last step's calls.
        calls, marks, steps = [], [], []
        with open(path, encoding="utf-8") as file:
            header = json.loads(next(file))
            self.rank = header["recorded"]
            self.world = header["ranks"]
            for line in file:
                row = json.loads(line)
                if "group" in row:
                    self.groups[row["group"]["name"]] = row["group"]["members"]
                elif "call" in row:
                    calls.append(row["call"])
                    if "messages" in row["call"]:
                        self.with_messages.add(row["call"]["group"])
                elif "mark" in row:
                    marks.append(row["mark"])
                elif "steps" in row:
                    steps += row["steps"].split()
        for call in last_posts(steps, calls, marks):
            if "root" in call and "messages" not in call:
                self.roots.setdefault(call["group"], set()).add(call["root"])

    def members(self, group):
        return self.groups.get(group, range(self.world))


def last_posts(steps, calls, marks):
    """The calls that are posted in the last training step that ends; all if no step is marked."""
    posted, last, is_marked = [], [], False
    for step in steps:
        if step[0] == "p":
            posted.append(calls[int(step[1:].split(":")[0])])
        elif step[0] == "m":
            kind = marks[int(step[1:])]["kind"]
            if kind == "step_begins":
                posted = []
            elif kind == "step_ends":
                last, is_marked = posted, True
    return last if is_marked else posted


def form_of(members):
    """Equal for groups that lie alike."""
    return tuple(member - members[0] for member in members)


def counterparts(record, names):
    """For each of the groups, by rank, the group that lies so around that rank."""
    found = []
    for name in sorted(names):
        form = form_of(record.members(name))
        alike = [members for members in record.groups.values() if form_of(members) == form]
        if name not in record.groups:
            alike = [record.members(name)]
        found.append({rank: members for members in alike for rank in members})
    return found


def connected(rank, kinds):
    """All ranks that messages reach from a rank, in order."""
    seen = {rank}
    waiting = [rank]
    while waiting:
        current = waiting.pop()
        for kind in kinds:
            for other in kind.get(current, ()):
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
    return sorted(seen)


def representatives(record):
    """By rank, the recorded rank that stands for it: the one in the same places."""
    kinds = counterparts(record, record.with_messages)
    recorded = connected(record.rank, kinds)

    def places(rank):
        return tuple(kind[rank].index(rank) if rank in kind else -1 for kind in kinds)

    by_places = {}
    for rank in recorded:
        by_places.setdefault(places(rank), rank)
    return [by_places.get(places(rank), record.rank) for rank in range(record.world)]


def some_of_each_root(record):
    """Ranks of each kind: the kind is at which place a rank is a root of which groups. None: nobody is
    one, but for the one rank of a group of all ranks."""
    names = [name for name in sorted(record.roots) if len(record.members(name)) < record.world]
    groups = counterparts(record, names)
    by_kind = {}
    ends = {0, record.world - 1}
    for rank in (*sorted(ends), *range(record.world)):
        places = (group[rank].index(rank) if rank in group else -1 for group in groups)
        kind = tuple(place if place in record.roots[name] else -1
                     for name, place in zip(names, places))
        of_kind = by_kind.setdefault(kind, [])
        if rank not in of_kind and len(of_kind) < (3 if ends & set(of_kind) else 2):
            of_kind.append(rank)
    return {rank for ranks in by_kind.values() for rank in ranks} if len(by_kind) > 1 else set()


def choose(record, checks, seed=0):
    """The ranks to record, and by rank the one that stands for it. `checks`: how many are recorded
    only to be compared, where no messages are sent."""
    roots = some_of_each_root(record)
    if record.with_messages:
        kinds = counterparts(record, record.with_messages)
        stands = representatives(record)
        recorded = set(stands)
        last = recorded.union(connected(record.world - 1, kinds))
        of_roots = last.union(*(connected(rank, kinds) for rank in roots))
        for compared, most in ((of_roots, MOST_OF_ROOTS if roots else MOST_CHECKED),
                               (last, MOST_CHECKED)):
            if len(compared) <= most:
                for rank in compared - recorded:
                    stands[rank] = rank
                recorded = compared
                break
        return sorted(recorded), stands
    ranks = {record.rank, record.world - 1}
    if len(ranks | roots) <= MOST_OF_ROOTS:
        ranks |= roots
    others = [rank for rank in range(record.world) if rank not in ranks]
    left = max(0, checks + 2 - len(ranks))  # Roots are compared, too.
    ranks.update(random.Random(seed).sample(others, min(left, len(others))))
    return sorted(ranks), [rank if rank in ranks else 0 for rank in range(record.world)]
