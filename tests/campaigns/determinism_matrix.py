#!/usr/bin/env python3
"""GCC and Clang, -O0 and -O2, twice each: do they say the same of every runnable scenario?

Plans (shape-only tensors) must be byte-identical everywhere. With real tensors the last bits of the
arithmetic may differ between compilers, so there the trace hash and the exit code must agree, and
two runs of one build must still be byte-identical. Each scenario counts as one check.

usage: determinism_matrix.py [SCENARIO...]
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILERS = {"gcc": "g++", "clang": "clang++"}
LEVELS = ("0", "2")


def build(compiler, level):
    """Builds one corner of the matrix and returns its command."""
    folder = ROOT / f"build-matrix-{compiler}-O{level}"
    if not (folder / "build.ninja").is_file():
        # Warnings are the business of the ordinary builds.
        subprocess.run(["meson", "setup", str(folder), str(ROOT), f"-Doptimization={level}",
                        "-Ddebug=false", "-Dwerror=false"],
                       env={**os.environ, "CXX": COMPILERS[compiler]}, check=True,
                       stdin=subprocess.DEVNULL, stdout=sys.stderr)
    subprocess.run(["ninja", "-C", str(folder), "-j", str(os.cpu_count()), "sim/app/shardsim"],
                   check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    return folder / "sim/app/shardsim"


def run(command, scenario):
    """(exit code, result object as bytes). Output files are left to a folder that goes away."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([str(command), str(scenario), "--json"], cwd=folder,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout


def trace_hash(result):
    return json.loads(result)["metrics"].get("trace_hash")


def problem_of(scenario, commands):
    """The first disagreement about one scenario, as a sentence; None when all agree."""
    reference = None
    for name, command in commands.items():
        code, result = run(command, scenario)
        if run(command, scenario) != (code, result):
            return f"{name} differs from itself on a second run"
        if code not in (0, 1):
            return f"{name} ends with exit code {code}"
        if reference is None:
            reference = (name, code, result)
            continue
        if code != reference[1]:
            return f"{name} ends with {code}, {reference[0]} with {reference[1]}"
        if trace_hash(result) != trace_hash(reference[2]):
            return f"{name} and {reference[0]} have different trace hashes"
        meta = json.loads(result)["scenario"]["execution"]["tensors"] == "meta"
        if meta and result != reference[2]:
            return f"{name} and {reference[0]} print different plans"
    return None


def main():
    scenarios = [pathlib.Path(path).resolve() for path in sys.argv[1:]] or sorted(
        path for path in (ROOT / "scenarios").glob("*.json")
        if not path.name.endswith(".schema.json"))
    commands = {f"{compiler} -O{level}": build(compiler, level)
                for compiler in COMPILERS for level in LEVELS}
    failed = 0
    for scenario in scenarios:
        problem = problem_of(scenario, commands)
        failed += problem is not None
        print(f"{'FAIL' if problem else 'ok':4} {scenario.name}"
              f"{': ' + problem if problem else ''}", flush=True)
    print(f"{len(scenarios) - failed} passed, {failed} failed")
    # Nothing compared is nothing proved.
    return 0 if scenarios and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
