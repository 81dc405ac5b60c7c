"""Long lists of cases are tested in parts, as tests/sample.hpp does it: SHARDSIM_SAMPLE chooses the part,
SHARDSIM_LONG=1 tests the whole."""

import os


def part_of(name, parts):
    """The part, 0 to `parts` - 1, that has the case with this name. A hash decides, so a part has no pattern."""
    hashed = 2166136261  # FNV-1a.
    for letter in name.encode():
        hashed = (hashed ^ letter) * 16777619 & 0xFFFFFFFF
    return (hashed >> 16 ^ hashed) % parts


def in_sample(name, parts):
    """Whether this run tests the case with this name."""
    sample = int(os.environ.get("SHARDSIM_SAMPLE") or 0)
    return os.environ.get("SHARDSIM_LONG") == "1" or part_of(name, parts) == sample % parts
