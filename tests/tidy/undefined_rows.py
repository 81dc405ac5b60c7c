#!/usr/bin/env python3
"""Every call of the network that takes a tensor has a row in the tables of
tests/backends/undefined_tensor_test.cpp, and every row there is of such a call.

usage: undefined_rows.py ROOT
"""

import pathlib
import re
import sys

import source

PAGE = "tests/backends/undefined_tensor_test.cpp"
# The type of a row, and the header whose calls its table has.
TABLES = {"Row": "backends/communicator.hpp", "TaggedRow": "backends/tagged_messages.hpp"}
CALL = re.compile(r"\bWork\s+(\w+)\(([^;]*);")
TAKES_TENSOR = re.compile(r"\b(?:Tensor|P2pOp)\b")


def calls_of(header):
    """Names of the calls in a header that take a tensor."""
    return {name for name, rest in CALL.findall(source.code_only(header)) if TAKES_TENSOR.search(rest)}


def rows_of(test, row):
    """The first column of a table."""
    table = re.search(rf"const std::vector<{row}>& \w+\(\) {{\n(.*?)\n}}\n", test, re.DOTALL)
    return set(re.findall(r'^ +\{"(\w+)", "', table.group(1), re.MULTILINE)) if table else set()


def problems(test, headers):
    """The problems, as sentences; `headers` are texts by the type of row."""
    found = []
    for row, header in headers.items():
        calls, rows = calls_of(header), rows_of(test, row)
        if not calls:
            found.append(f"{TABLES[row]} has no call that takes a tensor")
        found += [f"{name} of {TABLES[row]} has no {row}" for name in sorted(calls - rows)]
        found += [f"no call of {TABLES[row]} with a tensor is {name}" for name in sorted(rows - calls)]
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    headers = {row: (root / path).read_text(encoding="utf-8") for row, path in TABLES.items()}
    found = problems((root / PAGE).read_text(encoding="utf-8"), headers)
    for problem in found:
        print(f"{PAGE}: {problem}")
    print(f"undefined_rows: {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
