"""The package of this checkout, with the program that SHARDSIM names, or with a stand-in for it."""

import pathlib
import shlex
import sys
from collections.abc import Callable

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

StandIn = Callable[..., pathlib.Path]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def stand_in(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Makes a program that prints a text and ends so. It leaves its words in the file that is returned."""

    def make(output: str = "", *, log: str = "", exit_code: int = 0, then: str = "") -> pathlib.Path:
        (tmp_path / "output").write_text(output)
        (tmp_path / "log").write_text(log)
        program, words = tmp_path / "stand-in", tmp_path / "words"
        program.write_text(
            f"#!/bin/sh\ncd {shlex.quote(str(tmp_path))}\nprintf '%s\\n' \"$@\" > words\ncat > input\n"
            f"{then}\ncat output\ncat log >&2\nexit {exit_code}\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("SHARDSIM", str(program))
        return words

    return make
