#!/usr/bin/env python3
"""clang-format and clang-tidy, as two checks counted "N passed, M failed".

clang-tidy reads up to forty sources as one, as a unity build compiles them, because most of the time goes
to headers. A unit with findings is read again, each target alone. With --full it reads each source alone,
which shows missing includes, with the checks of NOT_IN_UNITS. Then it reads the tests, too, each with the
test framework. Clean sources that have not changed are not read again (clean_files.py); --anew reads all.

usage: lint.py --build FOLDER [--full] [--anew] [--apply-format] [FILE...]
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import clean_files

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNIT_SIZE = 40
# Units include sources. The second check looks for a string_view of nullptr, and takes a twelfth of the time.
NOT_IN_UNITS = ("bugprone-suspicious-include", "bugprone-stringview-nullptr")
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


def arguments_of(entry):
    """The part of a compile command that matters for findings: neither its files, nor how much it optimizes,
    nor the folders of its target, which have no headers."""
    arguments, names = shlex.split(entry["command"]), {entry["file"], entry["output"]}
    return tuple(argument for argument in arguments if not names.intersection((argument, argument[:-2])) and
                 not re.fullmatch(r"-O.|-I(\.\./)?(backends|reports|scenarios|sim|strategies)\b.*", argument))


def target_of(entry):
    return str(pathlib.PurePath(entry["output"]).parent)


def write_unit(members, folder, number):
    """Writes a source that includes `members`, given as (path, entry) of each, and returns its entry."""
    unit = folder / f"unit{number}.cpp"
    # Relative to the unit's folder: equal in every checkout, and found by every target.
    unit.write_text("".join(f'#include "{os.path.relpath(path, folder)}"\n' for path, _ in members),
                    encoding="utf-8")
    entry = dict(members[0][1])
    name = os.path.relpath(unit, entry["directory"])
    entry["command"] = shlex.join(name if argument == entry["file"] else argument
                                  for argument in shlex.split(entry["command"]))
    entry["file"] = name
    return entry


class Units:
    """Sources with equal arguments, read UNIT_SIZE at a time. The units and their compilation database
    lie in `folder`."""

    def __init__(self, entries, folder):
        self.folder = folder
        self.members = {}  # file of a unit -> (path, entry) of each source in it
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        groups = {}
        for path, entry in sorted(entries.items()):
            groups.setdefault(arguments_of(entry), []).append((path, entry))
        self.entries = [self._add(group[start:start + UNIT_SIZE])
                        for group in sorted(groups.values(), key=len, reverse=True)
                        for start in range(0, len(group), UNIT_SIZE)]
        # Names local to a source may be the same in two targets: then each target is read alone.
        self.apart = {unit["file"]: self._by_target(unit) for unit in self.entries}
        everything = [*self.entries, *(part for parts in self.apart.values() for part in parts)]
        (folder / "compile_commands.json").write_text(json.dumps(everything), encoding="utf-8")

    def _add(self, members):
        entry = write_unit(members, self.folder, len(self.members))
        self.members[entry["file"]] = members
        return entry

    def _by_target(self, unit):
        targets = {}
        for path, entry in self.members[unit["file"]]:
            targets.setdefault(target_of(entry), []).append((path, entry))
        return [self._add(members) for members in targets.values()] if len(targets) > 1 else []


def check_tidy(files, build, anew, whole):
    known = entries_of(build)
    entries = {path: known[path] for path in files if path in known}
    # The database may come from GCC, whose options Clang need not know.
    options = ["--quiet", "--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wreserved-identifier"]
    apart = {}
    if whole:
        units = list(entries.values())
    else:
        build = build / "units"
        joined = Units(entries, build)
        units, apart = joined.entries, joined.apart
        options.append("--checks=-" + ",-".join(NOT_IN_UNITS))
    # Files that no build compiles are read without arguments.
    units = units + [{"directory": str(ROOT), "file": str(path)} for path in files if path not in known]
    command = [tool("clang-tidy"), "-p", str(build), *options]
    settings = [output_of([command[0], "--version"])[1], *options,
                (ROOT / ".clang-tidy").read_text(encoding="utf-8")]
    clean = clean_files.CleanFiles("\n".join(settings))

    def read(unit):
        """Returns None for a unit that was clean before; else findings, "" where it is clean."""
        key = clean.key(unit) if "command" in unit else None
        if not anew and clean.has(key):
            return None
        path = os.path.normpath(os.path.join(unit["directory"], unit["file"]))
        status, output = output_of([*command, path])
        if status == 0 and not output.strip():
            clean.add(key)
            return ""
        return f"clang-tidy: {os.path.relpath(path, ROOT)}\n{output}"

    def check(unit):
        """The findings of a unit, or of its targets where it has several."""
        parts = apart.get(unit["file"], [])
        whole_findings = read(unit)
        if not whole_findings or not parts:
            return whole_findings
        findings = "".join(read(part) or "" for part in parts)
        if not findings:
            lines = whole_findings.splitlines()
            first = next((line for line in lines if "error:" in line), lines[-1])
            print(f"clang-tidy: only a unit of several targets has findings, mostly private names that two of "
                  f"them have: {first}")
        return findings

    num_read = num_bad = 0
    for findings in in_parallel(check, units):
        num_read += findings is not None
        if findings:
            num_bad += 1
            print(findings, flush=True)
    print(f"clang-tidy: {len(files)} files, read as {len(units)}, {len(units) - num_read} of these unchanged "
          f"since they were clean, {num_bad} with findings")
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
                          options.build, options.anew, whole=options.full or bool(options.files))]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
