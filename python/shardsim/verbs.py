"""The verbs for one run or two, as functions. Each is one call of the program, or two for a model's name.

Every function raises UsageError for a wrong call or scenario, ProgramMissing, InternalError, and Interrupted
after Ctrl-C. `progress=True` passes the program's messages to sys.stderr. `extra` has further words of the
command line, as `shardsim VERB --help` lists them.
"""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from shardsim import words
from shardsim.diffs import Diff
from shardsim.errors import Problem, class_of, error_of, problems_of_json
from shardsim.program import Ended, call
from shardsim.results import Result
from shardsim.validations import Validation
from shardsim.words import Path, Scenario

_OK, _FAILED, _NO_FIT = 0, 1, 3


class Preset(NamedTuple):
    """A model or a system that the program knows."""

    kind: str  # "model" or "system"
    name: str


def _result_of(ended: Ended) -> Result:
    """The result, also of a run that failed a check or does not fit. Raises for all others."""
    result = Result.of(ended)
    if ended.exit_code in (_OK, _FAILED, _NO_FIT):
        return result
    found = result.diagnosis or {}
    problem = Problem(
        str(found.get("code", "run")),
        str(found.get("summary", ended.log.strip() or "the run failed")),
        str(found.get("hint", "")),
    )
    raise class_of(ended.exit_code)([problem], result=result)


def run(
    scenario: Scenario,
    *,
    gpu: str | None = None,
    gpus: int | None = None,
    overrides: Mapping[str, object] | None = None,
    out: Path | None = None,
    jobs: int | None = None,
    progress: bool = False,
    extra: Sequence[str] = (),
    **sections: object,
) -> Result:
    """Simulates a scenario: the path of a file, a dict, or a model's name with gpu ("h100") and gpus.

    Fields are overridden by section, parallelism={"tp": 8}, or by their whole names,
    overrides={"training.micro_batch_size": 2}. `out` is the folder for files that the scenario names.

    A run that does not fit, or whose checks fail, is a result: see `fits`, `passed` and `require()`.
    Raises Deadlock where communication failed, BackendError, and DoesNotFit for a limit of the simulation.
    """
    given = words.for_input(scenario, gpu, gpus)
    return _result_of(
        call(
            [
                "run",
                given.word,
                "--json",
                *words.overrides(overrides, sections),
                *words.options({"out": out, "jobs": jobs}),
                *extra,
            ],
            text=given.text,
            progress=progress,
        )
    )


def check(
    scenario: Scenario,
    *,
    gpu: str | None = None,
    gpus: int | None = None,
    overrides: Mapping[str, object] | None = None,
    **sections: object,
) -> list[Problem]:
    """All problems of a scenario, without running it; [] if it is valid. Arguments are those of run()."""
    given = words.for_input(scenario, gpu, gpus)
    ended = call(["check", given.word, "--json", *words.overrides(overrides, sections)], text=given.text)
    problems = problems_of_json(ended.output)
    if ended.exit_code == _OK:
        return []
    if problems:
        return problems
    raise error_of(ended.exit_code, ended.output, ended.log)


def diff(
    a: Scenario | Result,
    b: Scenario | Result | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    measured: Path | None = None,
    fail_if: str | Sequence[str] = (),
    progress: bool = False,
    **sections: object,
) -> Diff:
    """Compares two runs: results, scenarios, or one scenario with itself changed by sections and overrides.

    `measured` is a real run in b's place: a log of Megatron-LM, a profiler's trace. Each of `fail_if` is a
    limit such as "step_time_s > 2%"; `passed` says whether all hold.
    """
    limits = [fail_if] if isinstance(fail_if, str) else list(fail_if)
    with contextlib.ExitStack() as stack:
        sides = [stack.enter_context(_side(side)) for side in (a, b) if side is not None]
        ended = call(
            [
                "diff",
                *sides,
                "--json",
                *words.overrides(overrides, sections),
                *words.options({"measured": measured}),
                *(word for limit in limits for word in ("--fail-if", limit)),
            ],
            progress=progress,
        )
    return Diff.of(ended)


@contextlib.contextmanager
def _side(side: Scenario | Result) -> Iterator[str]:
    if not isinstance(side, Result):
        with words.as_file(side) as path:
            yield path
        return
    with tempfile.TemporaryDirectory(prefix="shardsim-") as folder:
        kept = pathlib.Path(folder) / "result.json"
        kept.write_text(side.json, encoding="utf-8")
        yield str(kept)


def validate(
    tables: str | Sequence[str] = (),
    *,
    folder: Path | None = None,
    sample: bool = False,
    progress: bool = False,
    extra: Sequence[str] = (),
) -> Validation:
    """Compares predictions with published measurements: of all tables, of some by name, or of your own (.json).

    `sample` takes some rows of each table, which is seconds instead of minutes. `folder` has the tables; else
    those of the program's checkout are taken.
    """
    ended = call(
        [
            "validate",
            *([tables] if isinstance(tables, str) else tables),
            "--json",
            *words.options({"folder": folder, "sample": sample}),
            *extra,
        ],
        progress=progress,
    )
    return Validation.of(ended)


def presets() -> list[Preset]:
    """All models and systems that the program knows, models first."""
    ended = call(["presets", "--names"])
    if ended.exit_code != _OK:
        raise error_of(ended.exit_code, ended.output, ended.log)
    return [Preset(*line.split(None, 1)) for line in ended.output.splitlines() if line]


def version() -> str:
    """The version of the program: "0.1.0"."""
    return call(["--version"]).output.split()[-1]
