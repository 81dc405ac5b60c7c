"""The errors of shardsim. Each has a stable code, a place where there is one, and a way out.

The program ends with an exit code, and each class stands for one:

    UsageError     2    the call or the scenario is wrong
    DoesNotFit     3    the plan does not fit the device, or exceeds a named limit
    CheckFailed    1    a check or an expectation of the scenario does not hold
    Deadlock       4    ranks wait for each other, or their calls do not match
    BackendError   5    a real backend failed
    InternalError  70   a bug of shardsim
    Interrupted    130  Ctrl-C

`shardsim explain CODE` explains a code. Nothing here computes: all texts are the program's.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardsim.plans import Plan
    from shardsim.results import Result
    from shardsim.sweeps import Sweep

__all__ = [
    "BackendError",
    "CheckFailed",
    "Deadlock",
    "DoesNotFit",
    "InternalError",
    "Interrupted",
    "Problem",
    "ProgramMissing",
    "ShardsimError",
    "UsageError",
]


@dataclasses.dataclass(frozen=True)
class Problem:
    """One problem of a call or of a scenario."""

    code: str  # "E0107"
    message: str
    help: str = ""  # the way out; "" if the message says it
    file: str | None = None  # "-" is a scenario that was given as a dict
    line: int | None = None  # from 1
    column: int | None = None  # from 1, in characters
    pointer: str = ""  # of the JSON value: "/parallelism/tp"

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        lines = [f"error[{self.code}]: {self.message}"]
        if place or self.pointer:
            lines.append("  --> " + " at ".join(part for part in (place, self.pointer) if part))
        if self.help:
            lines.append(f"  = help: {self.help}")
        return "\n".join(lines)


class ShardsimError(Exception):
    """The base of all errors. Its attributes are those of the first problem."""

    exit_code = 70

    def __init__(self, problems: Sequence[Problem], *, result: Result | None = None) -> None:
        self.problems = list(problems)  # never empty
        self.result = result  # of a run that has one all the same
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @property
    def code(self) -> str:
        return self.problems[0].code

    @property
    def message(self) -> str:
        return self.problems[0].message

    @property
    def help(self) -> str:
        return self.problems[0].help

    @property
    def file(self) -> str | None:
        return self.problems[0].file

    @property
    def line(self) -> int | None:
        return self.problems[0].line

    @property
    def column(self) -> int | None:
        return self.problems[0].column

    @property
    def pointer(self) -> str:
        return self.problems[0].pointer


class UsageError(ShardsimError):
    """The call or the scenario is wrong: an unknown field, a value out of range, no such file."""

    exit_code = 2


class ProgramMissing(UsageError):
    """The program shardsim was not found, or cannot be started."""


class CheckFailed(ShardsimError):
    """A check of the run, or an expectation of the scenario, does not hold."""

    exit_code = 1


class DoesNotFit(ShardsimError):
    """The plan does not fit the device, or exceeds a named limit of the simulation."""

    exit_code = 3


class Deadlock(ShardsimError):
    """Ranks wait for each other, or call different things. `result.diagnosis` names them."""

    exit_code = 4


class BackendError(ShardsimError):
    """A real backend failed (MPI, NCCL)."""

    exit_code = 5


class InternalError(ShardsimError):
    """A bug of shardsim, or a program that was killed."""

    exit_code = 70


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended the program. `partial` has what `plan` or `sweep` had found; None of other verbs."""

    def __init__(self, message: str, *, output: str = "") -> None:
        self.output = output  # what the program had printed
        self.partial: Plan | Sweep | None = None
        super().__init__(message)


_BY_EXIT_CODE = {
    kind.exit_code: kind
    for kind in (UsageError, CheckFailed, DoesNotFit, Deadlock, BackendError, InternalError)
}
_CODE = re.compile(r"^error\[(\w+)\]: (.*)$")
_PLACE = re.compile(r"^\s*--> (.*?)(?::(\d+):(\d+))?(?:\s+at (/\S*))?\s*$")
_HELP = re.compile(r"^\s*= help: (.*)$")


def class_of(exit_code: int) -> type[ShardsimError]:
    """The class that stands for an exit code; InternalError for one that no class stands for."""
    return _BY_EXIT_CODE.get(exit_code, InternalError)


def problems_of_json(text: str) -> list[Problem] | None:
    """The problems that --json has printed: {"errors": [...]}, or a list. None for another text."""
    try:
        found: Any = json.loads(text)
    except ValueError:
        return None
    if isinstance(found, dict):
        found = found.get("errors")
    if not isinstance(found, list) or not all(isinstance(item, dict) and "code" in item for item in found):
        return None
    return [
        Problem(
            code=str(item["code"]),
            message=str(item.get("message", "")),
            help=item.get("help") or "",
            file=item.get("file") or None,
            line=item.get("line"),
            column=item.get("column"),
            pointer=item.get("pointer") or "",
        )
        for item in found
    ]


def is_result(text: str) -> bool:
    """Whether it is the JSON object of a verb, and no list of errors."""
    return text.lstrip().startswith("{") and problems_of_json(text) is None


def problems_of_text(text: str) -> list[Problem]:
    """The problems of an error page: "error[E0904]: ..." with its place and help."""
    problems: list[Problem] = []
    for line in text.splitlines():
        if match := _CODE.match(line):
            problems.append(Problem(code=match[1], message=match[2]))
        elif not problems:
            continue
        elif match := _HELP.match(line):
            problems[-1] = dataclasses.replace(problems[-1], help=match[1])
        elif match := _PLACE.match(line):
            problems[-1] = dataclasses.replace(
                problems[-1],
                file=match[1] or None,
                line=int(match[2]) if match[2] else None,
                column=int(match[3]) if match[3] else None,
                pointer=match[4] or "",
            )
    return problems


def error_of(exit_code: int, output: str, log: str) -> ShardsimError:
    """The exception for a program that ended without a result; `output` and `log` are all that it printed."""
    problems = problems_of_json(output) or problems_of_text(log) or problems_of_text(output)
    if not problems:
        how = f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
        said = (log.strip() or output.strip())[-2000:]
        problems = [
            Problem(
                code="E7000",
                message=f"shardsim ended with {how}" + (f": {said}" if said else ""),
                help="please report it with the scenario",
            )
        ]
    return class_of(exit_code)(problems)
