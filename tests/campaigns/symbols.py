#!/usr/bin/env python3
"""No function and no variable of the libraries is defined twice. The linker takes the first of two
definitions of one name: quietly, where one of them is inline and its callers have no copy of their
own. (That is how it was found once: with GCC -O0 every scenario was refused.)

A symbol is strong in one object and nowhere else, or weak (inline, or made from a template) in all
that have it. A function that the optimizer has inlined everywhere leaves no symbol. So with a ROOT
all headers are compiled as one object in which inline functions stay. Only -O0 shows functions that
are inline within a .cpp file; the matrix of builds (tests/campaigns/determinism_matrix.py) asks there.

usage: symbols.py BUILD [ROOT COMPILER...]
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "sim/package"))

from list_headers import with_eigen  # noqa: E402  (found by the line above)

LINE = re.compile(r"^(.*):[0-9a-f]+ ([A-Za-z]) (\S+)$", re.MULTILINE)
STRONG = "TDBRGSC"  # Code, data, zeroed and constant data, small data, common.
WEAK = "WVu"        # Weak functions and variables, GNU's unique ones.
# AddressSanitizer marks every variable with one of its own.
OWN_OF_TOOLS = ("__odr_asan", "DW.ref.")
FOLDERS = ("sim", "backends", "strategies", "scenarios", "reports")


def output_of(*command):
    return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          encoding="utf-8").stdout


def symbols_of(files):
    """{name: {"strong": [object], "weak": [object]}} of what libraries and objects define for
    others."""
    text = output_of("nm", "--print-file-name", "--defined-only", "--extern-only", *map(str, files))
    symbols = collections.defaultdict(lambda: {"strong": [], "weak": []})
    for place, kind, name in LINE.findall(text):
        if kind in STRONG + WEAK and not name.startswith(OWN_OF_TOOLS):
            symbols[name]["strong" if kind in STRONG else "weak"].append(pathlib.Path(place).name)
    return symbols


def problems(symbols):
    """The symbols that are defined twice, as sentences."""
    found = []
    for name, objects in sorted(symbols.items()):
        strong, weak = sorted(objects["strong"]), sorted(objects["weak"])
        if len(strong) > 1:
            found.append(f"{plain(name)} is defined in {' and in '.join(strong)}")
        elif strong and weak:
            found.append(f"{plain(name)} is defined in {strong[0]}, and another, inline, is in "
                         f"{', '.join(weak)}")
    return found


def plain(name):
    """The symbol's name in the source."""
    return output_of("c++filt", name).strip()


def libraries_of(build):
    return sorted(pathlib.Path(build).rglob("libshardsim_*.a"))


# A separate program, with headers that the others do not need. Headers for test frameworks, which
# exclude each other and may be missing.
NOT_LINKED = ("backends/mpi/module", "sim/harness/testing")


def compile_headers(root, compiler, compiled):
    """All headers as one object, but for those with Eigen, which is not on the path. Returns how many
    there are."""
    headers = [path.relative_to(root) for folder in FOLDERS
               for path in sorted((root / folder).rglob("*.hpp"))]
    numeric = with_eigen(root, headers)
    headers = [path for path in headers if path not in numeric
               and not any(map(path.is_relative_to, NOT_LINKED))]
    subprocess.run([*compiler, "-std=c++20", "-O0", "-I.", "-x", "c++", "-c", "-o", compiled, "-"],
                   cwd=root, input="".join(f'#include "{path}"\n' for path in headers),
                   encoding="utf-8", check=True)
    return len(headers)


def main():
    if len(sys.argv) != 2 and len(sys.argv) < 4:
        sys.exit(__doc__)
    libraries = libraries_of(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        inline = pathlib.Path(folder) / "headers"
        num_headers = 0
        if len(sys.argv) > 2:
            num_headers = compile_headers(pathlib.Path(sys.argv[2]), sys.argv[3:], inline)
        symbols = symbols_of([*libraries, *([inline] if num_headers else [])])
    found = problems(symbols)
    for problem in found:
        print(problem)
    print(f"symbols: {len(symbols)} in {len(libraries)} libraries and {num_headers} headers, "
          f"{len(found)} defined twice")
    complete = libraries and (num_headers or len(sys.argv) == 2)
    return 0 if complete and not found else 1


if __name__ == "__main__":
    sys.exit(main())
