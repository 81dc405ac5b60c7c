"""The program is found in the wheel, in the checkout, in an installation, in PATH, or where SHARDSIM says."""

import pathlib
import shutil
import subprocess
import sys

import pytest

import shardsim
from conftest import ROOT

WHICH = "from shardsim import program; print(program.find())"


def package_at(folder: pathlib.Path) -> pathlib.Path:
    """A copy of the package without a program."""
    shutil.copytree(
        ROOT / "python/shardsim", folder / "shardsim", ignore=shutil.ignore_patterns("__pycache__", "torch")
    )
    return folder


def program_at(path: pathlib.Path) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\necho \"$0 $SHARDSIM_PYTHON $@\"\n")
    path.chmod(0o755)
    return path


def python(package: pathlib.Path, *words: str, **variables: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-B", *words],
        env={"PYTHONPATH": str(package), **variables},
        text=True,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.returncode, done.stdout.strip()


@pytest.mark.parametrize(
    ("package", "place"),
    [
        ("site-packages", "site-packages/shardsim/bundle/bin/shardsim"),
        ("checkout/python", "checkout/build/sim/command/shardsim"),
        ("prefix/share/shardsim/python", "prefix/bin/shardsim"),
    ],
)
def test_a_package_takes_its_own_program(tmp_path: pathlib.Path, package: str, place: str) -> None:
    folder, own = package_at(tmp_path / package), program_at(tmp_path / place)
    other = program_at(tmp_path / "elsewhere/shardsim")
    assert python(folder, "-c", WHICH, PATH=str(other.parent)) == (0, str(own))
    assert python(folder, "-c", WHICH, SHARDSIM=str(other)) == (0, str(other))
    # The command is the package's own program, whatever SHARDSIM says: it may name this very command.
    assert python(folder, "-m", "shardsim", "a", "b c", SHARDSIM=str(other)) == (
        0,
        f"{own} {sys.executable} a b c",
    )
    assert python(folder, "-m", "shardsim", SHARDSIM_PYTHON="/my/python") == (0, f"{own} /my/python")


def test_a_package_without_a_program_takes_that_of_path(tmp_path: pathlib.Path) -> None:
    folder, other = package_at(tmp_path / "alone"), program_at(tmp_path / "elsewhere/shardsim")
    assert python(folder, "-c", WHICH, PATH=str(other.parent)) == (0, str(other))
    status, said = python(folder, "-c", WHICH, PATH="/nowhere")
    assert (
        status == 1
        and "error[P0001]: the program shardsim is neither in" in said
        and "install the wheel" in said
    )
    status, said = python(folder, "-m", "shardsim", PATH=str(other.parent))
    assert status == 2 and said.startswith("error[P0001]")


def test_a_program_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDSIM", "/nowhere/shardsim")
    with pytest.raises(shardsim.ProgramMissing, match="/nowhere/shardsim"):
        shardsim.run("a.json")
    pathlib.Path("text").write_text("no program")
    pathlib.Path("text").chmod(0o755)
    monkeypatch.setenv("SHARDSIM", str(pathlib.Path("text").resolve()))
    with pytest.raises(shardsim.ProgramMissing, match="cannot start"):
        shardsim.run("a.json")
