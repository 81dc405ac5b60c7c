"""All Python that is shipped parses as Python 3.10, and the package and its tests are typed."""

import ast
import pathlib
import subprocess
import sys

import pytest

from conftest import ROOT

SHIPPED = sorted(path for folder in ("python", "tests/python") for path in (ROOT / folder).rglob("*.py"))
TYPED = [
    *sorted((ROOT / "python/shardsim").glob("*.py")),
    *sorted((ROOT / "tests/python").glob("*_test.py")),
    ROOT / "tests/python/conftest.py",
]


def test_there_are_files() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in SHIPPED}
    assert {
        "python/shardsim/__init__.py",
        "python/shardsim/torch/launch.py",
        "python/packaging/setup.py",
    } < names


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(ROOT)))
def test_it_parses_as_python_3_10(path: pathlib.Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), filename=str(path), feature_version=(3, 10))


def test_newer_syntax_would_be_seen() -> None:
    with pytest.raises(SyntaxError):
        ast.parse("try:\n  pass\nexcept* ValueError:\n  pass\n", feature_version=(3, 10))


def test_types_are_sound(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--config-file",
            ROOT / "python/mypy.ini",
            "--cache-dir",
            tmp_path,
            *TYPED,
        ],
        capture_output=True,
        text=True,
        check=False,
        env={"MYPYPATH": str(ROOT / "python")},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_users_see_the_types(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import shardsim\nreveal_type(shardsim.run('a.json').step_time_s)\nshardsim.plan('m', gpu='h100')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, "mine.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"MYPYPATH": str(ROOT / "python")},
    )
    assert 'Revealed type is "builtins.float"' in done.stdout
    assert 'Missing named argument "gpus" for "plan"' in done.stdout
