"""A page of the guide that says which tests hold what it states: it and the names of the tests are
read, and what does not agree is printed."""

import pathlib
import re
import sys

TEST = re.compile(r'\bTEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)[,)]')


def test_names(sources):
    """Names of the tests in some texts."""
    return [re.sub(r'"\s*"', "", literals.strip())[1:-1]
            for text in sources for literals in TEST.findall(text)]


def check(usage, page, tests, problems):
    """The whole of a script `NAME.py ROOT`: `page` and the folder `tests` are paths from the root,
    `problems(text of the page, names)` gives sentences. Returns the exit status, which is 1 if
    there are any, or no test."""
    if len(sys.argv) != 2:
        sys.exit(usage)
    root = pathlib.Path(sys.argv[1])
    names = test_names(path.read_text(encoding="utf-8")
                       for path in sorted((root / tests).rglob("*.cpp")))
    found = problems((root / page).read_text(encoding="utf-8"), names)
    for problem in found:
        print(f"{page}: {problem}")
    print(f"{pathlib.Path(sys.argv[0]).stem}: {len(names)} tests, {len(found)} problems")
    return 1 if found or not names else 0
