#!/usr/bin/env python3
"""GCC and Clang, -O0 and -O2, twice each: do they give the same for every runnable scenario?

Plans (shape-only tensors) must be byte-identical everywhere, and every scenario with real tensors
is planned as well. With real tensors the last bits of the arithmetic may differ between compilers.
There the trace hash and the exit code must agree, and two runs of one build must be
byte-identical. Each compared run counts as one check. So does each build whose
libraries define nothing twice (symbols.py; -O0 shows most).

All corners build with warnings as errors. The one that no other build covers, Clang at -O2, builds
every target and runs all tests but the slow ones; these are added to the counts.

usage: determinism_matrix.py [SCENARIO...]
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import count_results
import symbols

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILERS = {"gcc": "g++", "clang": "clang++"}
LEVELS = ("0", "2")
TESTED = ("clang", "2")
COMMAND = "sim/command/shardsim"
# Their devices of 1 GiB suffice for real tensors; a plan needs room for the context, too.
AS_PLAN = ("--set", "execution.tensors=meta", "--set", "system.device.memory_gib=80")


def build(compiler, level):
    """Builds one corner of the matrix and returns its folder."""
    folder = ROOT / "build-matrix" / f"{compiler}-O{level}"
    if not (folder / "build.ninja").is_file():
        subprocess.run(["meson", "setup", str(folder), str(ROOT), f"-Doptimization={level}",
                        "-Ddebug=false"],
                       env={**os.environ, "CXX": COMPILERS[compiler]}, check=True,
                       stdin=subprocess.DEVNULL, stdout=sys.stderr)
    targets = [] if (compiler, level) == TESTED else [COMMAND]
    subprocess.run(["ninja", "-C", str(folder), "-j", str(os.cpu_count()), *targets],
                   check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    return folder


def run_tests(folder):
    """[passed, failed, skipped] of all tests of a build but the slow and the online ones."""
    done = subprocess.run(["meson", "test", "-C", str(folder), "--no-rebuild", "--print-errorlogs",
                           "--no-suite", "slow", "--no-suite", "online"],
                          stdin=subprocess.DEVNULL, check=False)
    total = count_results.count_log(folder / "meson-logs/testlog.json")
    # A run without a failed test has failed, too, if it tested nothing or ended badly.
    if total[1] == 0 and (done.returncode != 0 or total[0] == 0):
        total[1] = 1
    return total


def run(command, scenario, arguments):
    """(exit code, result object as bytes). Output files go to a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([str(command), str(scenario), *arguments, "--json"], cwd=folder,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout


def problem_of_symbols(folder):
    """The symbols that a build's libraries define twice, as a sentence; None if there are none."""
    found = symbols.symbols_of(symbols.libraries_of(folder))
    return "; ".join(symbols.problems(found)) or None


def is_plan(result):
    return json.loads(result)["scenario"]["execution"]["tensors"] == "meta"


def trace_hash(result):
    return json.loads(result)["metrics"].get("trace_hash")


def problem_of(scenario, commands, arguments):
    """The first disagreement about one run, as a sentence; None when all agree."""
    reference = None
    for name, command in commands.items():
        code, result = run(command, scenario, arguments)
        if run(command, scenario, arguments) != (code, result):
            return f"{name} differs from itself on a second run"
        if code not in (0, 1):
            return f"{name} ends with exit code {code}"
        if arguments == AS_PLAN and not is_plan(result):
            return f"{name} makes no plan of it"
        if reference is None:
            reference = (name, code, result)
            continue
        if code != reference[1]:
            return f"{name} ends with {code}, {reference[0]} with {reference[1]}"
        if trace_hash(result) != trace_hash(reference[2]):
            return f"{name} and {reference[0]} have different trace hashes"
        if is_plan(result) and result != reference[2]:
            return f"{name} and {reference[0]} print different plans"
    return None


def runs_of(scenario):
    """The further arguments with which a scenario is compared."""
    return ((), AS_PLAN) if scenario.name.startswith("verify-") else ((),)


def main():
    scenarios = [pathlib.Path(path).resolve() for path in sys.argv[1:]] or sorted(
        path for path in (ROOT / "scenarios").glob("*.json")
        if not path.name.endswith(".schema.json"))
    folders = {(compiler, level): build(compiler, level)
               for compiler in COMPILERS for level in LEVELS}
    total = run_tests(folders[TESTED])
    commands = {f"{compiler} -O{level}": folder / COMMAND
                for (compiler, level), folder in folders.items()}
    for (compiler, level), folder in folders.items():
        problem = problem_of_symbols(folder)
        total[problem is not None] += 1
        print(f"{'FAIL' if problem else 'ok':4} {compiler} -O{level}: symbols"
              f"{': ' + problem if problem else ''}", flush=True)
    for scenario in scenarios:
        for arguments in runs_of(scenario):
            problem = problem_of(scenario, commands, arguments)
            total[problem is not None] += 1
            print(f"{'FAIL' if problem else 'ok':4} {' '.join([scenario.name, *arguments])}"
                  f"{': ' + problem if problem else ''}", flush=True)
    print(count_results.line_of(total))
    # An empty comparison proves nothing.
    return 0 if scenarios and total[1] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
