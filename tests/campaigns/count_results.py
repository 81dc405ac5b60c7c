#!/usr/bin/env python3
"""Counts the tests of one `meson test` run; its last line is "N passed, M failed", with
", K skipped" behind it if any were.

A test binary counts as its Catch2 test cases, a Python test as its test methods or functions, anything else
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
# Begins a line that a passed test wants to show.
FIGURES = "figures: "
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
UNITTEST_BAD = re.compile(r"(?:failures|errors)=(\d+)")
UNITTEST_SKIPPED = re.compile(r"skipped=(\d+)")
PYTEST_LAST = re.compile(r"^((?:\d+ [a-z]+(?:, )?)+) in \d+\.\d+s(?: \(\S+\))?$", re.MULTILINE)
PYTEST_COUNT = re.compile(r"(\d+) ([a-z]+)")


def counts(output):
    """(passed, failed, skipped) as the test itself printed them, or None when it prints no counts."""
    match = CATCH_PASSED.search(output)
    if match:
        return int(match.group(1)), 0, 0
    match = CATCH_MIXED.search(output)
    if match:
        failed = sum(int(number) for number in CATCH_FAILED.findall(match.group(2)))
        return int(match.group(1)) - failed, failed, 0
    match = UNITTEST_RAN.search(output)
    if match:
        verdict = output[match.end():]
        bad = sum(int(number) for number in UNITTEST_BAD.findall(verdict))
        skipped = sum(int(number) for number in UNITTEST_SKIPPED.findall(verdict))
        return int(match.group(1)) - bad - skipped, bad, skipped
    match = PYTEST_LAST.search(output)
    if match:
        said = {word: int(number) for number, word in PYTEST_COUNT.findall(match.group(1))}
        bad = sum(said.get(word, 0) for word in ("failed", "error", "errors"))
        return said.get("passed", 0), bad, said.get("skipped", 0)
    return None


def output_of(test):
    return (test.get("stdout") or "") + "\n" + (test.get("stderr") or "")


def count_test(test):
    """(passed, failed, skipped) of one line of meson's log."""
    if test["result"] == "SKIP":
        return 0, 0, 1
    passed, failed, skipped = counts(output_of(test)) or (0, 0, 0)
    if test["result"] not in ("OK", "EXPECTEDFAIL"):
        return passed, max(failed, 1), skipped
    if failed or skipped:
        return passed, failed, skipped
    return max(passed, 1), 0, 0


def count_log(path):
    """[passed, failed, skipped] of a whole run. Prints skipped tests with their reasons, and
    figures of tests."""
    total = [0, 0, 0]
    with open(path, encoding="utf-8") as log:
        for line in log:
            test = json.loads(line)
            counted = count_test(test)
            total = [sum(pair) for pair in zip(total, counted)]
            for said in (test.get("stdout") or "").splitlines():
                if said.startswith(FIGURES):
                    print(said)
            if counted[2]:
                reasons = [said for said in output_of(test).splitlines() if "skipped" in said]
                print(f"skipped in {test['name']}: {'; '.join(reasons) or 'no reason given'}")
    return total


def line_of(total):
    """The line with which every campaign ends."""
    passed, failed, skipped = total
    return f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    total = count_log(sys.argv[1])
    print(line_of(total))
    # A run in which nothing passed tested nothing.
    return 0 if total[1] == 0 and total[0] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
