#!/usr/bin/env python3
"""Prints a third of the tests of a build folder: their names on the first line, on the second the targets of
ninja that they need.

Tests of one program stay together, so that a third of the tests needs about a third of the test
programs. Programs with most sources are dealt out first, each to the third that has fewest. A script
counts as one source.

usage: sanitizer_sample.py FOLDER PART [--without SUITE]... [--always NAME]...
"""

import argparse
import collections
import json
import os
import subprocess
import sys

PARTS = 3


def introspect(folder, what):
    done = subprocess.run(["meson", "introspect", folder, f"--{what}"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def weight_of(test):
    """The sources whose cases it runs; 1 of a script."""
    return max(1, sum(argument.count("[#") for argument in test["cmd"]))


def in_thirds(tests):
    """The names of the tests, in three lists."""
    programs = collections.defaultdict(list)
    for test in tests:
        has_cases = "[#" in test["cmd"][-1]
        programs[test["cmd"][0] if has_cases else test["name"]].append(test)
    weights = {program: sum(map(weight_of, members)) for program, members in programs.items()}
    thirds = [[] for _ in range(PARTS)]
    filled = [0] * PARTS
    for program in sorted(programs, key=lambda program: (-weights[program], program)):
        least = filled.index(min(filled))
        thirds[least] += [test["name"] for test in programs[program]]
        filled[least] += weights[program]
    return thirds


def targets_of(tests, targets, folder):
    """What ninja has to build for the tests, by the paths that it knows."""
    files = {target["id"]: target["filename"] for target in targets}
    needed = {path for test in tests for target in test["depends"] for path in files[target]}
    known = {path for paths in files.values() for path in paths}
    needed |= {path for test in tests for path in test["cmd"] if path in known}
    return sorted(os.path.relpath(path, os.path.abspath(folder)) for path in needed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("part", type=int)
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--always", action="append", default=[])
    options = parser.parse_args()
    suites = {f"shardsim:{suite}" for suite in options.without}
    tests = [test for test in introspect(options.folder, "tests") if not suites.intersection(test["suite"])]
    targets = introspect(options.folder, "targets")
    thirds = in_thirds([test for test in tests if test["name"] not in options.always])
    names = [*options.always, *thirds[options.part % PARTS]]
    print(*names)
    print(*targets_of([test for test in tests if test["name"] in names], targets, options.folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
