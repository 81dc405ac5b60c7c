#!/usr/bin/env python3
"""Every property of docs/guide/properties.md that is called tested has a test named after it, one
that is not yet has none, and tests are named after no other.

usage: properties.py ROOT
"""

import re
import sys

from page_of_tests import check

PAGE = "docs/guide/properties.md"
TESTS = "tests"
LAST = {"P": 56, "M": 16}
ROW = re.compile(r"^\| ([PM]\d+) \| .+ \| (tested|not yet) \|$", re.MULTILINE)
PREFIX = re.compile(r"(?:[A-Z]\d+, )*[A-Z]\d+: ")


def properties_of(name):
    """"P8, P9: ..." holds P8 and P9; most names hold none."""
    prefix = PREFIX.match(name)
    return re.findall(r"\b[PM]\d+", prefix.group()) if prefix else []


def problems(page, names):
    """The problems, as sentences."""
    rows = ROW.findall(page)
    found = []
    if [name for name, _ in rows] != [f"{letter}{i}" for letter, last in LAST.items() for i in range(1, last + 1)]:
        known = ", then ".join(f"{letter}1 to {letter}{last}" for letter, last in LAST.items())
        found.append(f"the rows are not {known}, once each and in order")
    state = dict(rows)
    held = {number: name for name in names for number in properties_of(name)}
    for number, name in held.items():
        if number not in state:
            found.append(f"there is no {number}, after which a test is named: \"{name}\"")
    for number, said in rows:
        if said == "tested" and number not in held:
            found.append(f"{number}: no test is named after it")
        if said == "not yet" and number in held:
            found.append(f"{number}: there is a test, \"{held[number]}\"")
    return found


if __name__ == "__main__":
    sys.exit(check(__doc__, PAGE, TESTS, problems))
