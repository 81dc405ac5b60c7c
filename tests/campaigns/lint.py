#!/usr/bin/env python3
"""clang-format and clang-tidy, as two checks counted "N passed, M failed".

Without --full, clang-tidy reads the sources of the product; with it, those of the tests too, which
take far longer because each drags in the test framework.

usage: lint.py --build FOLDER [--full | --apply-format] [FILE...]
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRODUCT = ("sim", "backends", "strategies", "scenarios", "reports")


def tool(name):
    """The pinned version: another one formats differently."""
    found = shutil.which(f"{name}-14") or shutil.which(name)
    if not found:
        sys.exit(f"lint: {name}-14 is not installed")
    return found


def sources(folders, suffixes):
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*")
                  if path.suffix in suffixes)


def in_parallel(commands):
    """Runs all commands, one per core at a time; yields (command, exit status, output)."""
    def run(command):
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, text=True, check=False)
        # clang-tidy reports findings on stdout; its stderr counts suppressed warnings, and is of
        # interest only when it fails with nothing found.
        return command, done.returncode, done.stdout or (done.stderr if done.returncode else "")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(run, commands)


def check_format(files, apply):
    mode = ["-i"] if apply else ["--dry-run", "-Werror"]
    bad = 0
    for start in range(0, len(files), 50):
        command = [tool("clang-format"), *mode, *map(str, files[start:start + 50])]
        bad += subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode != 0
    if bad:
        print("clang-format: `./dev format` repairs the above")
    return bad == 0


def check_tidy(files, build):
    if not (build / "compile_commands.json").is_file():
        sys.exit(f"lint: {build} is not configured")
    # The database may come from GCC, whose options Clang need not know.
    command = [tool("clang-tidy"), "--quiet", "-p", str(build),
               "--extra-arg=-Wno-unknown-warning-option"]
    bad = 0
    for done, status, output in in_parallel([[*command, str(path)] for path in files]):
        if status != 0 or output.strip():
            bad += 1
            print(f"clang-tidy: {os.path.relpath(done[-1], ROOT)}\n{output}", flush=True)
    print(f"clang-tidy: {len(files)} files, {bad} with findings")
    return bad == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--full", action="store_true", help="clang-tidy reads the tests too")
    parser.add_argument("--apply-format", action="store_true", help="only format, in place")
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="only these (default: all)")
    options = parser.parse_args()

    everything = sources((*PRODUCT, "tests"), (".hpp", ".cpp"))
    if options.apply_format:
        return 0 if check_format(everything, apply=True) else 1
    tidied = options.files or sources(PRODUCT + (("tests",) if options.full else ()), (".cpp",))
    results = [check_format(options.files or everything, apply=False),
               check_tidy([path.resolve() for path in tidied if path.suffix == ".cpp"],
                          options.build)]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
