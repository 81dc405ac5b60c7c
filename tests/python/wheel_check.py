#!/usr/bin/env python3
"""Installs a wheel as the guide says, in an empty folder and environment, and runs the notebook there.

The commands are those of docs/guide/python.md. Checks the wheel's size and tag, the command, its presets,
the package that `shardsim torch` takes, and that `pip uninstall` leaves nothing. The last line has counts.

usage: wheel_check.py WHEEL              the wheel that `./dev wheel` has built
       wheel_check.py --program PROGRAM  builds one around this program first
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python/packaging"), str(ROOT / "tests/hardware")]

import build_wheel  # noqa: E402
import portable_needs  # noqa: E402

GUIDE = ROOT / "docs/guide/python.md"
FIRST_FIGURE_S = 60.0
# Says which package a script that `shardsim torch` starts would get.
SPY = """#!/bin/sh
exec {python} -c 'import shardsim, shardsim.torch; print(shardsim.run.__module__, shardsim.torch.__file__)'
"""


class Check:
    """Counts what holds, and prints what does not."""

    def __init__(self):
        self.passed = self.failed = 0

    def that(self, holds, statement, otherwise=""):
        self.passed += bool(holds)
        self.failed += not holds
        print(
            f"{'ok' if holds else 'FAILED'}: {statement}" + ("" if holds else f": {str(otherwise)[-4000:]}"),
            flush=True,
        )


def bare(command, folder, **variables):
    """A command in the folder, with nothing in its environment but `variables`. (exit code, what it printed)"""
    words = [
        "/usr/bin/env",
        "-i",
        *(f"{name}={value}" for name, value in variables.items()),
        "/bin/bash",
        "-c",
        command,
    ]
    done = subprocess.run(
        words,
        cwd=folder,
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def files_below(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def commands_of_guide():
    block = re.search(r"^```sh\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return block[1].splitlines()


def check_wheel(check, wheel):
    size = wheel.stat().st_size
    is_for_many = "manylinux" in wheel.name  # Others may have a program that is not optimized.
    check.that(
        size < build_wheel.LARGEST or not is_for_many,
        f"the wheel has {size / 1e6:.2f} MB" + ", less than 10" * is_for_many,
        size,
    )
    version, machine = build_wheel.version(), os.uname().machine
    check.that(
        re.fullmatch(
            rf"shardsim-{re.escape(version)}-py3-none-(manylinux_2_35|linux)_{machine}\.whl", wheel.name
        ),
        f"its name is {wheel.name}",
        wheel.name,
    )
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        program = archive.extract("shardsim/bundle/bin/shardsim", folder)
        names = archive.namelist()
        said = [
            subprocess.run(["objdump", option, program], capture_output=True, text=True, check=True).stdout
            for option in ("-p", "-T")
        ]
    problems = portable_needs.problems(*portable_needs.needs_of(*said))
    check.that(
        bool(problems) != is_for_many,
        f"its tag says what the program needs ({len(problems)} more than glibc 2.35)",
        problems,
    )
    check.that(
        not [name for name in names if "__pycache__" in name or name.endswith((".so", ".o"))],
        "it has sources alone, and the program",
        names,
    )
    check.that(
        "shardsim/torch/native/module.cpp" in names and "shardsim/py.typed" in names,
        "the recorder's sources and py.typed are in it",
        names,
    )


def check_again(check, program, wheel):
    """Another build has another time and another folder."""
    with tempfile.TemporaryDirectory() as folder:
        again = build_wheel.build(program, pathlib.Path(folder))
        check.that(
            again.read_bytes() == wheel.read_bytes(), "equal files give equal wheels", "the bytes differ"
        )


def check_command(check, here):
    status, said = bare("v/bin/shardsim --version && v/bin/python -m shardsim --version", here)
    check.that(said == f"shardsim {build_wheel.version()}\n" * 2, "the command runs", said)
    status, said = bare("v/bin/shardsim presets --names", here)
    known = sum(1 for folder in ("models", "systems") for _ in (ROOT / "scenarios" / folder).glob("*.json"))
    check.that(status == 0 and len(said.splitlines()) == known, f"it has all {known} presets", said)
    status, said = bare("v/bin/shardsim demo", here)
    made = sorted(path.name for path in (here / "shardsim-demo").glob("*"))
    check.that(
        status == 0 and made == ["report.html", "scenario.json", "step.pftrace"],
        "the demo writes its page and its trace",
        said,
    )
    shutil.rmtree(here / "shardsim-demo", ignore_errors=True)
    spy = here / "spy"
    spy.write_text(SPY.format(python="/usr/bin/python3"))
    spy.chmod(0o755)
    status, said = bare("v/bin/shardsim torch --world 1 train.py", here, SHARDSIM_PYTHON=spy)
    taken = re.search(r"^(\S+) (\S+)$", said, re.MULTILINE)
    check.that(
        taken
        and taken[1] == "shardsim.verbs"
        and taken[2].startswith(f"{here}/v/")
        and taken[2].endswith("/shardsim/torch/__init__.py"),
        "shardsim torch takes the installed package, in any Python",
        said,
    )
    status, said = bare("v/bin/shardsim torch --world 1 train.py", here)
    check.that(
        said == "shardsim torch: there is no script train.py\n",
        "shardsim torch starts the Python of the environment",
        said,
    )


def check_all(check, wheel):
    check_wheel(check, wheel)
    with tempfile.TemporaryDirectory(prefix="shardsim-wheel-") as folder:
        here = pathlib.Path(folder).resolve()
        for path in (wheel, ROOT / "docs/guide/python.ipynb", ROOT / "tests/python/notebook.py"):
            shutil.copy(path, here)
        make, install = commands_of_guide()
        make = re.sub(
            "^python3 ", "/usr/bin/python3 ", make
        )  # Without PATH, Python knows its place by this alone.
        begin = time.monotonic()
        status, said = bare(make, here)
        check.that(status == 0, f"{make} ({time.monotonic() - begin:.1f} s)", said)
        before = files_below(here)
        begin = time.monotonic()
        status, said = bare(install, here)
        installed_s = time.monotonic() - begin
        check.that(status == 0, f"{install} ({installed_s:.1f} s)", said)
        status, said = bare("v/bin/python -B notebook.py python.ipynb", here)
        check.that(
            status == 0,
            f"the notebook runs and shows what it shows ({time.monotonic() - begin:.1f} s from pip on)",
            said,
        )
        first = re.search(r"at (\d+\.\d+)", said)
        seconds = float(first[1]) - begin if first else float("inf")
        check.that(
            seconds < FIRST_FIGURE_S, f"the first figure comes {seconds:.1f} s after pip was started", said
        )
        check_command(check, here)
        status, said = bare("v/bin/pip uninstall -y shardsim", here)
        left = files_below(here) - before - {"spy"}
        check.that(status == 0 and not left, "pip uninstall -y leaves nothing", f"{said}{sorted(left)}")
        lost = before - files_below(here)
        check.that(not lost, "and takes nothing else", sorted(lost))


def main():
    check = Check()
    if len(sys.argv) == 3 and sys.argv[1] == "--program":
        with tempfile.TemporaryDirectory() as folder:
            wheel = build_wheel.build(sys.argv[2], pathlib.Path(folder))
            check_again(check, sys.argv[2], wheel)
            check_all(check, wheel)
    elif len(sys.argv) == 2 and sys.argv[1].endswith(".whl"):
        check_all(check, pathlib.Path(sys.argv[1]).resolve())
    else:
        sys.exit(__doc__)
    print(f"{check.passed} passed, {check.failed} failed")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
