#!/usr/bin/env python3
"""Every statement of the specification has a row in docs/guide/sharded-optimizers.md, every row names
a test that exists, and every test named after a statement has a row.

usage: statements.py ROOT
"""

import re
import sys

from page_of_tests import check

PAGE = "docs/guide/sharded-optimizers.md"
TESTS = "tests/sharded_optimizer"
# Letter and number of the last statement of each document.
DOCUMENTS = {"S": 8, "T": 6, "H": 8, "I": 2, "F": 10, "Z": 5}
ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+) \|$", re.MULTILINE)
STATEMENT = re.compile(rf"([{''.join(DOCUMENTS)}]\d+): ")


def problems(page, names):
    """The problems, as sentences."""
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


if __name__ == "__main__":
    sys.exit(check(__doc__, PAGE, TESTS, problems))
