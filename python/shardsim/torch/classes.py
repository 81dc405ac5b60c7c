"""Which ranks must be recorded so that each rank of the world does what a recorded one does.

Ranks that send each other messages (pipelines) differ by their places in the groups over which the
messages go. All others are expected to do the same, each in its own groups; a few more are recorded
to see whether that is so.
"""

import json
import random

MOST_CHECKED = 16  # Ranks of a second pipeline are recorded, too, if it is no longer.


class Record:
    """Groups and messages of one rank's file."""

    def __init__(self, path):
        self.groups = {}
        self.with_messages = set()
        with open(path, encoding="utf-8") as file:
            header = json.loads(next(file))
            self.rank = header["recorded"]
            self.world = header["ranks"]
            for line in file:
                row = json.loads(line)
                if "group" in row:
                    self.groups[row["group"]["name"]] = row["group"]["members"]
                elif "call" in row and "messages" in row["call"]:
                    self.with_messages.add(row["call"]["group"])

    def members(self, group):
        return self.groups.get(group, range(self.world))


def form_of(members):
    """Equal for groups that lie alike."""
    return tuple(member - members[0] for member in members)


def counterparts(record):
    """For each group with messages, by rank, the group that lies so around that rank."""
    found = []
    for name in sorted(record.with_messages):
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
    kinds = counterparts(record)
    recorded = connected(record.rank, kinds)

    def places(rank):
        return tuple(kind[rank].index(rank) if rank in kind else -1 for kind in kinds)

    by_places = {}
    for rank in recorded:
        by_places.setdefault(places(rank), rank)
    return [by_places.get(places(rank), record.rank) for rank in range(record.world)]


def choose(record, checks, seed=0):
    """The ranks to record, and by rank the one that stands for it. `checks`: how many are recorded
    only to be compared, where no messages are sent."""
    if record.with_messages:
        kinds = counterparts(record)
        stands = representatives(record)
        recorded = set(stands)
        last = connected(record.world - 1, kinds)
        if len(recorded) + len(last) <= MOST_CHECKED:
            recorded.update(last)
            for rank in last:
                stands[rank] = rank
        return sorted(recorded), stands
    ranks = {record.rank, record.world - 1}
    others = [rank for rank in range(record.world) if rank not in ranks]
    ranks.update(random.Random(seed).sample(others, min(checks, len(others))))
    return sorted(ranks), [rank if rank in ranks else 0 for rank in range(record.world)]
