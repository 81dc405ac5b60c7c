"""Finds the program shardsim and runs it. All that the package knows comes from the program's JSON."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO, NamedTuple

from shardsim.errors import Interrupted, Problem, ProgramMissing

HERE = pathlib.Path(__file__).resolve().parent
IN_WHEEL = HERE / "bundle/bin/shardsim"
IN_CHECKOUT = HERE.parents[1] / "build/sim/command/shardsim"
IN_INSTALLATION = HERE.parents[3] / "bin/shardsim"  # HERE is PREFIX/share/shardsim/python/shardsim.
INTERRUPTED = 130  # the exit code
GRACE_S = 10.0  # for a program that was asked to end; a search needs a second
_SET_PARENT_DEATH_SIGNAL = 1


class Ended(NamedTuple):
    """A program that has ended."""

    exit_code: int  # negative: the signal that ended it
    output: str  # standard output
    log: str  # standard error


def find() -> pathlib.Path:
    """The program: $SHARDSIM, else the package's own, else that of PATH. Raises ProgramMissing."""
    named = os.environ.get("SHARDSIM")
    if named:
        chosen = shutil.which(named)
        if chosen is None:
            raise ProgramMissing(
                [
                    Problem(
                        "P0001",
                        f"SHARDSIM names {named!r}, which is no program",
                        "unset SHARDSIM, or let it name the program",
                    )
                ]
            )
        return pathlib.Path(chosen)
    here = own()
    in_path = None if here else shutil.which("shardsim")
    if here is None and in_path is None:
        raise missing()
    return here or pathlib.Path(str(in_path))


def missing() -> ProgramMissing:
    return ProgramMissing(
        [
            Problem(
                "P0001",
                f"the program shardsim is neither in {IN_WHEEL.parent} nor in PATH",
                "install the wheel, or let the variable SHARDSIM name the program",
            )
        ]
    )


def own() -> pathlib.Path | None:
    """The program of this wheel, of this checkout, or of the installation that `./dev install` makes."""
    places = [IN_WHEEL, IN_CHECKOUT]
    if HERE.parts[-4:] == ("share", "shardsim", "python", "shardsim"):
        places.append(IN_INSTALLATION)
    return next((path for path in places if path.is_file()), None)


def environment() -> dict[str, str]:
    """The variables of the program: `shardsim torch` shall take this Python, and no other."""
    own_python = {"SHARDSIM_PYTHON": sys.executable} if sys.executable else {}
    return {**own_python, **os.environ}


class _Reader(threading.Thread):
    """Collects what a program prints, and passes lines on if asked."""

    def __init__(self, pipe: IO[bytes], passes_on: bool) -> None:
        super().__init__(daemon=True)
        self._pipe, self._passes_on, self._parts = pipe, passes_on, list[bytes]()
        self.start()

    def run(self) -> None:
        with self._pipe:
            for line in self._pipe:
                self._parts.append(line)
                if self._passes_on:
                    sys.stderr.write(line.decode("utf-8", "replace"))
                    sys.stderr.flush()

    def text(self) -> str:
        self.join()
        return b"".join(self._parts).decode("utf-8", "replace")


def _dying_with_parent() -> Callable[[], object]:
    """The first act of a child: it asks to end with this process, even by SIGKILL (a kernel's restart)."""
    set_death_signal = ctypes.CDLL(None).prctl  # Looked up before the fork.
    return lambda: set_death_signal(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGTERM))


def _stop(child: subprocess.Popen[bytes], first: signal.Signals) -> None:
    """Asks the program to end, and ends it if it does not. A second Ctrl-C ends it at once."""
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(first)
    try:
        child.wait(GRACE_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # Its own children hold its pipes.
        child.wait()


def call(words: Sequence[str], *, text: str | None = None, progress: bool = False) -> Ended:
    """Runs `shardsim WORDS`. `text` is its standard input. `progress` passes its messages to sys.stderr.

    The program has a process group of its own, so a terminal's Ctrl-C reaches it once: from here. Raises
    ProgramMissing, and Interrupted with what was printed. After any exception the program has ended.
    """
    program = find()
    try:
        child = subprocess.Popen(
            [str(program), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=_dying_with_parent(),
            env=environment(),
        )
    except OSError as error:
        raise ProgramMissing(
            [
                Problem(
                    "P0002",
                    f"cannot start {program}: {error.strerror}",
                    "the wheel is for Linux on x86-64 with glibc 2.35 or newer",
                )
            ]
        ) from error
    assert child.stdin and child.stdout and child.stderr
    interrupted = False
    output, log = _Reader(child.stdout, False), _Reader(child.stderr, progress)
    try:
        with contextlib.suppress(BrokenPipeError):  # It has refused the call, and says why.
            child.stdin.write((text or "").encode())
            child.stdin.close()
        child.wait()
    except KeyboardInterrupt:
        interrupted = True
        _stop(child, signal.SIGINT)
    except BaseException:
        _stop(child, signal.SIGTERM)
        raise
    if interrupted or child.returncode == INTERRUPTED:
        raise Interrupted("shardsim was interrupted", output=output.text())
    return Ended(child.returncode, output.text(), log.text())
