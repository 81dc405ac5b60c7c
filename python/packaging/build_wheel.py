#!/usr/bin/env python3
"""Builds the wheel of shardsim, offline. Prints its path.

The wheel has the package, the program, its presets, and the sources of the recorder of PyTorch programs.
A program that runs on any Linux with glibc 2.35 (`./dev portable`) makes a manylinux wheel; the tag says so.
Another one makes a wheel for machines like this one, and stderr says why. Equal files give equal wheels.

usage: build_wheel.py PROGRAM OUT     PROGRAM: the command shardsim; OUT: a folder
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/hardware"))
import portable_needs  # noqa: E402

LARGEST = 10_000_000  # bytes of a wheel for many machines
FIRST_DATE_OF_ZIP = "315619200"  # 1980-01-02
BUNDLE = "shardsim/bundle"
SHARE = f"{BUNDLE}/share/shardsim"
MACHINES = {62: "x86_64", 183: "aarch64"}  # e_machine of ELF.


def version():
    found = re.search(
        r"project\('shardsim'.*?\bversion: '([^']+)'", (ROOT / "meson.build").read_text(), re.DOTALL
    )
    return found[1]


def platform_of(program):
    """The platform in the tag, and what keeps the program from running elsewhere."""
    head = pathlib.Path(program).read_bytes()[:20]
    machine = MACHINES[int.from_bytes(head[18:20], "little")]
    said = [
        subprocess.run(["objdump", option, program], capture_output=True, text=True, check=True).stdout
        for option in ("-p", "-T")
    ]
    needed = portable_needs.problems(*portable_needs.needs_of(*said))
    glibc = "_".join(map(str, portable_needs.NEWEST))
    return (f"linux_{machine}" if needed else f"manylinux_{glibc}_{machine}"), needed


def lay_out(program, stage):
    """All files of the wheel, below `stage`."""
    hidden = shutil.ignore_patterns("__pycache__", "*.pyc", "bundle")
    shutil.copytree(ROOT / "python/shardsim", stage / "shardsim", ignore=hidden)
    shutil.copy(ROOT / "python/packaging/setup.py", stage)
    shutil.copy(ROOT / "LICENSE", stage)
    (stage / BUNDLE / "bin").mkdir(parents=True)
    shutil.copy(program, stage / BUNDLE / "bin/shardsim")
    subprocess.run(["strip", stage / BUNDLE / "bin/shardsim"], check=True)
    for presets in ("models", "systems"):
        shutil.copytree(ROOT / "scenarios" / presets, stage / SHARE / presets)
    shutil.copy(ROOT / "scenarios/scenario.schema.json", stage / SHARE)
    lead = stage / SHARE / "python/shardsim"
    (lead / "torch").mkdir(parents=True)
    shutil.copy(ROOT / "python/packaging/lead_to_package.py", lead / "__init__.py")
    (lead / "torch/__init__.py").write_text(
        '"""The command looks for this file. Python takes the package that the one above leads to."""\n'
    )


def build(program, out):
    """The path of the wheel."""
    platform, needed = platform_of(program)
    if needed:
        print(
            f"build_wheel: this wheel is for machines like this one: the program {'; '.join(needed)}",
            file=sys.stderr,
        )
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        stage = pathlib.Path(folder)
        lay_out(program, stage)
        environment = {
            **os.environ,
            "SOURCE_DATE_EPOCH": FIRST_DATE_OF_ZIP,
            "SHARDSIM_WHEEL_VERSION": version(),
            "SHARDSIM_WHEEL_PLATFORM": platform,
        }
        done = subprocess.run(
            [sys.executable, "-B", "setup.py", "-q", "bdist_wheel", "--dist-dir", str(out.resolve())],
            cwd=stage,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            sys.exit(f"build_wheel: setuptools failed:\n{done.stdout}")
    wheel = out / f"shardsim-{version()}-py3-none-{platform}.whl"
    if not needed and wheel.stat().st_size >= LARGEST:
        sys.exit(
            f"build_wheel: {wheel.name} has {wheel.stat().st_size:,} bytes; it must have less than {LARGEST:,}"
        )
    return wheel


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(build(sys.argv[1], pathlib.Path(sys.argv[2])))


if __name__ == "__main__":
    main()
