#!/usr/bin/env python3
"""The needs of a program on its machine: no library but the C library's, and none newer than Ubuntu
22.04 has (glibc 2.35). Exit code 1 if it needs more.

usage: portable_needs.py BINARY
"""

import re
import subprocess
import sys

ALLOWED = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
NEWEST = (2, 35)
PLUGIN = ("ncclProfiler_v4", "ncclProfiler_v5")  # NCCL looks for them in the running program.


def needs_of(headers, symbols):
    """Libraries, newest glibc and its symbols, and what of PLUGIN is missing; from objdump -p and -T."""
    libraries = re.findall(r"^\s*NEEDED\s+(\S+)", headers, re.MULTILINE)
    versions = {}
    for version, name in re.findall(r"\(?GLIBC_([0-9.]+)\)?\s+(\S+)", symbols):
        versions.setdefault(tuple(int(part) for part in version.split(".")), []).append(name)
    newest = max(versions, default=(0,))
    defined = {line.split()[-1] for line in symbols.splitlines() if line.strip() and "*UND*" not in line}
    return libraries, newest, versions.get(newest, []), [name for name in PLUGIN if name not in defined]


def problems(libraries, newest, names, missing):
    found = [f"needs {library}" for library in libraries if library not in ALLOWED]
    if newest > NEWEST:
        found.append(f"needs glibc {'.'.join(map(str, newest))} for {', '.join(sorted(names))}")
    return found + [f"does not export {name}" for name in missing]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    said = [subprocess.run(["objdump", option, sys.argv[1]], capture_output=True, text=True, check=True).stdout
            for option in ("-p", "-T")]
    needs = needs_of(*said)
    print(f"needs {', '.join(needs[0])}; glibc {'.'.join(map(str, needs[1]))} for {', '.join(sorted(needs[2]))}")
    found = problems(*needs)
    for problem in found:
        print(f"not portable: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
