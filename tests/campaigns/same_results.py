#!/usr/bin/env python3
"""Two builds of the command give the same results: `run --json` of every shipped scenario, and
`plan --json` of the spaces in tests/search/small_spaces.json.

Run it after a change that is to keep behavior, with a build of the commit before. Names, their
order, texts and the digits of numbers are compared, the trace hash among them. The words of assumptions, warnings and details are masked: they may
get better. The numbers in details are not.

usage: same_results.py OLD_COMMAND NEW_COMMAND [--keep FOLDER]
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MASKED = {"assumptions", "warnings", "detail", "details"}


def masked(value, key=None):
    """`value` without the words of its assumptions, warnings and details: their count stays, and the numbers of
    details."""
    if key in MASKED:
        return len(value) if isinstance(value, list) else re.findall(r"\d[\d.,]*(?:e[+-]\d+)?", str(value))
    if isinstance(value, dict):
        return {name: masked(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [masked(part) for part in value]
    return value


def comparable(text):
    """The masked result as text. Numbers keep their digits."""
    result = json.loads(text, parse_float=lambda digits: "number " + digits, parse_int=lambda digits: "number " + digits)
    return json.dumps(masked(result), indent=1)


def output(command, arguments):
    """The exit code and the masked result. Files that the command writes go to a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([command, *arguments], cwd=folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    try:
        return done.returncode, comparable(done.stdout)
    except json.JSONDecodeError:
        return done.returncode, "no JSON: " + done.stdout[:500] + done.stderr[:500]


def cases(folder):
    """The arguments of each command line that is compared, by name."""
    found = {path.name: ["run", str(path), "--json"] for path in sorted((ROOT / "scenarios").glob("*.json"))
             if not path.name.endswith(".schema.json")}
    for number, space in enumerate(json.loads((ROOT / "tests/search/small_spaces.json").read_text("utf-8"))):
        model = folder / f"model-{number}.json"
        model.write_text(json.dumps(space["model"]), encoding="utf-8")
        found["plan: " + space["name"]] = [
            "plan", str(model), "--gpus", str(space["gpus"]), "--gpu", space["gpu"],
            "--global-batch-size", str(space["batch"]), "--json", "-j1", "--time-limit", "0",
            *(word for text in space["overrides"] for word in ("--set", text)),
            *(word for text in space["fixed"] for word in ("--fix", text))]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("old", type=os.path.abspath)
    parser.add_argument("new", type=os.path.abspath)
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for outputs that differ")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        pairs = {name: [pool.submit(output, command, arguments) for command in (options.old, options.new)]
                 for name, arguments in cases(pathlib.Path(folder)).items()}
        for name, (old, new) in pairs.items():
            same = old.result() == new.result()
            failed += not same
            print("same   " if same else "DIFFERS", name, flush=True)
            if not same and options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                for side, result in (("old", old.result()), ("new", new.result())):
                    (options.keep / f"{name}.{side}").write_text(f"exit {result[0]}\n{result[1]}\n", encoding="utf-8")
    print(f"{len(pairs) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
