#!/usr/bin/env python3
"""Counts the tests of one `meson test` run and prints "N passed, M failed" as its last line.

A test binary counts as its Catch2 test cases, a Python test as its test methods, anything else
(a benchmark's smoke run, a script) as one. A binary that ended badly counts at least one failure,
whatever it had printed before.

usage: count_results.py build/meson-logs/testlog.json
"""

import json
import re
import sys

CATCH_PASSED = re.compile(r"All tests passed \(\d+ assertions? in (\d+) test cases?\)")
CATCH_MIXED = re.compile(r"^test cases: *(\d+) \|(.*)$", re.MULTILINE)
CATCH_FAILED = re.compile(r"(\d+) failed(?! as expected)")
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
UNITTEST_BAD = re.compile(r"(?:failures|errors)=(\d+)")


def counts(output):
    """(passed, failed) as the test itself printed them, or None when it prints no counts."""
    match = CATCH_PASSED.search(output)
    if match:
        return int(match.group(1)), 0
    match = CATCH_MIXED.search(output)
    if match:
        failed = sum(int(number) for number in CATCH_FAILED.findall(match.group(2)))
        return int(match.group(1)) - failed, failed
    match = UNITTEST_RAN.search(output)
    if match:
        bad = sum(int(number) for number in UNITTEST_BAD.findall(output[match.end():]))
        return int(match.group(1)) - bad, bad
    return None


def count_test(test):
    """(passed, failed, skipped) of one line of meson's log."""
    output = (test.get("stdout") or "") + "\n" + (test.get("stderr") or "")
    if test["result"] == "SKIP":
        return 0, 0, 1
    passed, failed = counts(output) or (0, 0)
    if test["result"] not in ("OK", "EXPECTEDFAIL"):
        return passed, max(failed, 1), 0
    if failed:
        return passed, failed, 0
    return max(passed, 1), 0, 0


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    total = [0, 0, 0]
    with open(sys.argv[1], encoding="utf-8") as log:
        for line in log:
            for index, number in enumerate(count_test(json.loads(line))):
                total[index] += number
    if total[2]:
        print(f"{total[2]} skipped")
    print(f"{total[0]} passed, {total[1]} failed")
    # A run in which nothing passed tested nothing.
    return 0 if total[1] == 0 and total[0] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
