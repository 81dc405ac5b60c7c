#!/usr/bin/env python3
"""GCC and Clang build the same tables, and compute the same prices.

This script writes the program that is compared. The program includes all sources of sim/hardware and
prints each of their constants (constants_of.py finds them, print_constant.hpp prints any type). Then
it prints the price of an operation per family, software and preset, and of each collective
(print_prices.cpp). It includes new tables and sources automatically.

usage: compare_tables.py FOLDER COMPILER COMPILER [FLAG...]
"""

import difflib
import json
import pathlib
import shutil
import subprocess
import sys

import constants_of

ROOT = pathlib.Path(__file__).resolve().parents[3]
HARDWARE = "sim/hardware"
PRINTER = "tests/hardware/tables/print_constant.hpp"
PRICES = "tests/hardware/tables/print_prices"
# The only sources of other layers that tables and prices need.
OTHERS = ("sim/kernel/dtype.cpp", "sim/kernel/random.cpp", "sim/kernel/text.cpp", "sim/kernel/time.cpp", "scenarios/nccl_platform.cpp")
LEVEL = ("-std=c++20", "-O2")
MOST_LINES = 12


class Failure(Exception):
    """A problem of a source, a compiler or a program."""


def files_of(root):
    """Sources of sim/hardware, headers first, as paths from the root."""
    files = sorted((pathlib.Path(root) / HARDWARE).rglob("*.?pp"), key=lambda path: (path.suffix != ".hpp", path))
    return [path.relative_to(root).as_posix() for path in files]


def constants_in(root, files):
    """[(file, name)] of all constants. Throws Failure where one cannot be printed."""
    constants, problems = [], []
    for file in files:
        names, hidden = constants_of.constants_of((pathlib.Path(root) / file).read_text(encoding="utf-8"))
        constants += [(file, name) for name in names]
        problems += [f"{file}: {problem}" for problem in hidden]
    if problems:
        raise Failure("\n".join(problems))
    return constants


def program_of(files, constants, with_prices):
    """The text of the program."""
    prints = "".join(f'  test::print_constant(text, "{file} {name}", {name});\n' for file, name in constants)
    lines = [f'#include "{file}"\n' for file in [*files, PRINTER] + [f"{PRICES}.cpp"] * with_prices]
    return ("#include <iostream>\n#include <string>\n" + "".join(lines) +
            f"namespace shardsim {{\nnamespace {{\nvoid print_constants(std::string& text) {{\n{prints}}}\n}}\n}}\n"
            "int main() {\n  std::string text;\n  shardsim::print_constants(text);\n  std::cout << text;\n" +
            "  shardsim::test::print_prices(std::cin, std::cout);\n" * with_prices + "}\n")


def write_if_new(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def start_build(compiler, flags, roots, program):
    """Starts a compiler on one source: (process, object)."""
    made = program.with_name(f"{program.stem}.{pathlib.Path(compiler).name}.o")
    cache = [shutil.which("ccache")] if shutil.which("ccache") else []
    command = [*cache, compiler, *LEVEL, *flags, *(f"-I{root}" for root in roots), "-c", str(program), "-o", str(made)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True), made


def link(compiler, objects):
    linked = objects[0].with_suffix("")
    done = subprocess.run([compiler, *map(str, objects), "-lfmt", "-o", str(linked)], stdin=subprocess.DEVNULL, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Failure(f"{compiler} cannot link {linked}:\n{done.stdout}")
    return linked


def build(compilers, flags, roots, programs):
    """[program] of each compiler, made of all the sources; the compilers run in parallel."""
    started = [(compiler, [start_build(compiler, flags, roots, program) for program in programs]) for compiler in compilers]
    linked = []
    for compiler, jobs in started:
        for process, made in jobs:
            output, _ = process.communicate()
            if process.returncode != 0:
                raise Failure(f"{compiler} cannot build {made}:\n{output}")
        linked.append(link(compiler, [made for _, made in jobs]))
    return linked


def fields_of(value, path=""):
    """(path, value) of each field of a preset; sources are left out."""
    if isinstance(value, dict) and "value" in value:
        value = value["value"]
    if not isinstance(value, dict):
        yield path, value
        return
    for key, inner in value.items():
        if key != "source":
            yield from fields_of(inner, f"{path}.{key}" if path else key)


def text_of_presets(root):
    """All presets of systems as lines that print_prices reads."""
    lines = []
    for path in sorted((pathlib.Path(root) / "scenarios/systems").glob("*.json")):
        lines.append(f"preset {path.stem}\n")
        preset = json.loads(path.read_text(encoding="utf-8"))
        lines += [f"{field} {value}\n" for field, value in fields_of(preset)]
    return "".join(lines)


def output_of(program, stdin=""):
    done = subprocess.run([str(program)], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{program} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def difference(compilers, outputs):
    """The first lines that differ, or ""."""
    if outputs[0] == outputs[1]:
        return ""
    changes = list(difflib.unified_diff(outputs[0].splitlines(), outputs[1].splitlines(), *compilers, n=0, lineterm=""))
    rest = f"\n... and {len(changes) - MOST_LINES} lines more" if len(changes) > MOST_LINES else ""
    return "\n".join(changes[:MOST_LINES]) + rest


def tables(folder, compilers, flags, root=ROOT):
    """The constants of a root as the two programs print them, without prices; for planted faults.
    The repository supplies headers that the root lacks."""
    files = files_of(root)
    program = pathlib.Path(folder) / "tables.cpp"
    write_if_new(program, program_of(files, constants_in(root, files), with_prices=False))
    written, _ = written_tables(folder)
    return [output_of(built) for built in build(compilers, flags, (root, ROOT, written), [program])]


def written_tables(folder):
    """The root of the headers that the build writes from JSON, made here, and their paths from there."""
    root = pathlib.Path(folder) / "written"
    gpus = sorted((ROOT / HARDWARE / "kernels/gpus").glob("*.json"), key=lambda path: path.name != "every-gpu.json")
    made = {"gpu_table.hpp": ("kernels/make_table.py", gpus),
            "recorded_uses.hpp": ("software/make_uses.py", [ROOT / HARDWARE / "software/recorded.json"])}
    (root / HARDWARE).mkdir(parents=True, exist_ok=True)
    for name, (script, sources) in made.items():
        subprocess.run([sys.executable, "-B", str(ROOT / HARDWARE / script), str(root / HARDWARE / name),
                        *map(str, sources)], check=True)
    return root, [f"{HARDWARE}/{name}" for name in made]


def programs_with_prices(folder, compilers, flags):
    """The two programs that print all tables and prices, and the names of all constants."""
    files = files_of(ROOT)
    written, made = written_tables(folder)
    constants = constants_in(ROOT, files) + constants_in(written, made)
    program = pathlib.Path(folder) / "tables.cpp"
    others = pathlib.Path(folder) / "others.cpp"
    write_if_new(program, program_of(files, constants, with_prices=True))
    write_if_new(others, "".join(f'#include "{file}"\n' for file in OTHERS))
    return build(compilers, flags, (ROOT, written), [program, others]), constants


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    folder, *compilers = sys.argv[1:4]
    try:
        built, _ = programs_with_prices(folder, compilers, sys.argv[4:])
        outputs = [output_of(program, text_of_presets(ROOT)) for program in built]
    except Failure as failure:
        sys.exit(str(failure))
    found = difference(compilers, outputs)
    if found:
        sys.exit(f"{' and '.join(compilers)} do not agree:\n{found}")
    print(f"{' and '.join(compilers)} print the same {outputs[0].count(chr(10))} lines")


if __name__ == "__main__":
    main()
