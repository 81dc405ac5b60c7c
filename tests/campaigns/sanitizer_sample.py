#!/usr/bin/env python3
"""Prints a third of the tests of a build folder: names on the first line, on the second ninja's targets.

Tests of one program stay together, so that a third of the tests needs about a third of the programs:
tests/meson.build deals the programs out, as suites `third_0` to `third_2`. A hash of the name deals out
tests without such a suite.

usage: sanitizer_sample.py FOLDER PART [--without SUITE]... [--always NAME]...
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import sample  # noqa: E402  (found by the line above)

PARTS = 3


def introspect(folder, what):
    done = subprocess.run(["meson", "introspect", folder, f"--{what}"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def third_of(test):
    for part in range(PARTS):
        if f"shardsim:third_{part}" in test["suite"]:
            return part
    return sample.part_of(test["name"], PARTS)


def targets_of(tests, targets, folder):
    """The files that the tests need, by the paths that ninja knows."""
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
    drawn = [test for test in tests
             if test["name"] in options.always or third_of(test) == options.part % PARTS]
    print(*(test["name"] for test in drawn))
    print(*targets_of(drawn, targets, options.folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
