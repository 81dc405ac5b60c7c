#!/usr/bin/env python3
"""Runs the tests of the Python package by pytest, in this Python.

They need the packages that `./dev test` installs. Where one is missing, as on another system, this ends with
77, which counts as skipped, and says what is missing.

usage: run_tests.py PROGRAM [ARGUMENTS OF PYTEST]     PROGRAM: the command shardsim
"""

import importlib.util
import os
import pathlib
import sys

SKIPPED = 77
NEEDED = ("pytest", "pandas", "nbclient", "ipykernel", "mypy")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {sys.executable} has no {', '.join(missing)}", file=sys.stderr)
        return SKIPPED
    import pytest

    here = pathlib.Path(__file__).resolve().parent
    os.environ["SHARDSIM"] = os.path.abspath(sys.argv[1])
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    return int(
        pytest.main(
            [
                "-q",
                "-p",
                "no:cacheprovider",
                "--rootdir",
                str(here),
                "--durations=5",
                *(sys.argv[2:] or [str(here)]),
            ]
        )
    )


if __name__ == "__main__":
    sys.exit(main())
