#!/usr/bin/env python3
"""clang-format and clang-tidy, as two checks counted "N passed, M failed".

Without --full, clang-tidy reads the sources of the product; with it, those of the tests too, which
take far longer because each drags in the test framework. Sources that were clean before, and of
which nothing has changed since, are not read again (clean_files.py); --anew reads them all.

usage: lint.py --build FOLDER [--full] [--anew] [--apply-format] [FILE...]
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys

from clean_files import CleanFiles

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


def in_parallel(function, items):
    """Yields function(item) of each item in order, one per core at a time."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(function, items)


def check_format(files, apply):
    mode = ["-i"] if apply else ["--dry-run", "-Werror"]
    bad = 0
    for start in range(0, len(files), 50):
        command = [tool("clang-format"), *mode, *map(str, files[start:start + 50])]
        bad += subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode != 0
    if bad:
        print("clang-format: `./dev format` repairs the above")
    return bad == 0


def output_of(command):
    """(exit status, what there is to show) of a command."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, text=True, check=False)
    # clang-tidy reports findings on stdout; its stderr counts suppressed warnings, and is of
    # interest only when it fails with nothing found.
    return done.returncode, done.stdout or (done.stderr if done.returncode else "")


def entries_of(build):
    """source -> its entry of the compilation database."""
    if not (build / "compile_commands.json").is_file():
        sys.exit(f"lint: {build} is not configured")
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    return {pathlib.Path(entry["directory"], entry["file"]).resolve(): entry for entry in entries}


def check_tidy(files, build, anew):
    entries = entries_of(build)
    # The database may come from GCC, whose options Clang need not know.
    options = ["--quiet", "--extra-arg=-Wno-unknown-warning-option"]
    command = [tool("clang-tidy"), "-p", str(build), *options]
    settings = [output_of([command[0], "--version"])[1], *options,
                (ROOT / ".clang-tidy").read_text(encoding="utf-8")]
    clean = CleanFiles("\n".join(settings))

    def check(path):
        """None of a file that was clean before; else (path, whether it is, what was found)."""
        key = clean.key(entries[path]) if path in entries else None
        if not anew and clean.has(key):
            return None
        status, output = output_of([*command, str(path)])
        if status == 0 and not output.strip():
            clean.add(key)
            return path, True, ""
        return path, False, output

    num_read = num_bad = 0
    for path, is_clean, output in filter(None, in_parallel(check, files)):
        num_read += 1
        if not is_clean:
            num_bad += 1
            print(f"clang-tidy: {os.path.relpath(path, ROOT)}\n{output}", flush=True)
    print(f"clang-tidy: {len(files)} files, {len(files) - num_read} of them unchanged since they "
          f"were clean, {num_bad} with findings")
    return num_bad == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--full", action="store_true", help="clang-tidy reads the tests too")
    parser.add_argument("--anew", action="store_true", help="clang-tidy reads what was clean before, too")
    parser.add_argument("--apply-format", action="store_true", help="only format, in place")
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="only these (default: all)")
    options = parser.parse_args()

    everything = sources((*PRODUCT, "tests"), (".hpp", ".cpp"))
    if options.apply_format:
        return 0 if check_format(everything, apply=True) else 1
    tidied = options.files or sources(PRODUCT + (("tests",) if options.full else ()), (".cpp",))
    results = [check_format(options.files or everything, apply=False),
               check_tidy([path.resolve() for path in tidied if path.suffix == ".cpp"],
                          options.build, options.anew)]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
