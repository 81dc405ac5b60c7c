#!/usr/bin/env python3
"""Every statement of the specification has a row in docs/guide/sharded-optimizers.md, every row names
a test that exists, and every test named after a statement has a row.

usage: statements.py ROOT
"""

import pathlib
import re
import sys

PAGE = "docs/guide/sharded-optimizers.md"
TESTS = "tests/sharded_optimizer"
# Letter and number of the last statement of each document.
DOCUMENTS = {"S": 8, "T": 6, "H": 8, "I": 2, "F": 10, "Z": 5}
ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+) \|$", re.MULTILINE)
TEST = re.compile(r'\bTEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)[,)]')
STATEMENT = re.compile(r"([A-Z]\d+): ")


def test_names(sources):
    """Names of the tests in some texts."""
    return [re.sub(r'"\s*"', "", literals.strip())[1:-1]
            for text in sources for literals in TEST.findall(text)]


def problems(page, names):
    """What is wrong, as sentences."""
    rows = ROW.findall(page)
    wanted = [f"{letter}{i}" for letter, last in DOCUMENTS.items() for i in range(1, last + 1)]
    stated = {statement for statement, _ in rows}
    found = [f"statement {statement} has no row" for statement in wanted if statement not in stated]
    for statement, name in rows:
        if name not in names:
            found.append(f"{statement}: there is no test \"{name}\"")
        elif not name.startswith(statement + ": "):
            found.append(f"{statement}: the test is named after another: \"{name}\"")
    listed = {name for _, name in rows}
    found += [f"the test \"{name}\" has no row" for name in names
              if STATEMENT.match(name) and name not in listed]
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    sources = [path.read_text(encoding="utf-8") for path in sorted((root / TESTS).glob("*.cpp"))]
    names = test_names(sources)
    found = problems((root / PAGE).read_text(encoding="utf-8"), names)
    for problem in found:
        print(f"{PAGE}: {problem}")
    print(f"statements: {len(names)} tests, {len(found)} problems")
    return 1 if found or not names else 0


if __name__ == "__main__":
    sys.exit(main())
