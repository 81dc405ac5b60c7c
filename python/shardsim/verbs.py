"""The verbs of the program as functions. Each is one call of the program, or two for a model's name.

Every function raises UsageError for a wrong call or scenario, ProgramMissing, InternalError, and Interrupted
after Ctrl-C. `progress=True` passes the program's messages to sys.stderr. `extra` has further words of the
command line, as `shardsim VERB --help` lists them.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Union

from shardsim import words
from shardsim.diffs import Diff
from shardsim.errors import Interrupted, Problem, class_of, error_of, problems_of_json
from shardsim.plans import Plan
from shardsim.program import Ended, call
from shardsim.results import Result
from shardsim.sweeps import Sweep
from shardsim.words import Scenario

Path = Union[str, "os.PathLike[str]"]
_OK, _FAILED, _NO_FIT, _INTERRUPTED = 0, 1, 3, 130


class Preset(NamedTuple):
    """A model or a system that the program knows."""

    kind: str  # "model" or "system"
    name: str


def _is_object(text: str) -> bool:
    """Whether it is a JSON object of the verb, and no list of errors."""
    return text.lstrip().startswith("{") and problems_of_json(text) is None


def _result_of(ended: Ended) -> Result:
    """The result, also of a run that failed a check or does not fit. Raises for all others."""
    if not _is_object(ended.output):
        raise error_of(ended.exit_code, ended.output, ended.log)
    result = Result(ended.output, ended.exit_code, ended.log)
    if ended.exit_code in (_OK, _FAILED, _NO_FIT):
        return result
    found = result.diagnosis or {}
    problem = Problem(str(found.get("code", "run")), str(found.get("summary", ended.log.strip() or "the run failed")),
                      str(found.get("hint", "")))
    raise class_of(ended.exit_code)([problem], result=result)


def run(scenario: Scenario, *, gpu: str | None = None, gpus: int | None = None,
        overrides: Mapping[str, object] | None = None, out: Path | None = None, jobs: int | None = None,
        progress: bool = False, extra: Sequence[str] = (), **sections: object) -> Result:
    """Simulates a scenario: the path of a file, a dict, or a model's name with gpu ("h100") and gpus.

    Fields are overridden by section, parallelism={"tp": 8}, or by their whole names,
    overrides={"training.micro_batch_size": 2}. `out` is the folder for files that the scenario names.

    A run that does not fit, or whose checks fail, is a result: see `fits`, `passed` and `require()`.
    Raises Deadlock where communication failed, BackendError, and DoesNotFit for a limit of the simulation.
    """
    given = words.for_input(scenario, gpu, gpus)
    return _result_of(call(["run", given.word, "--json", *words.overrides(overrides, sections),
                            *words.options({"out": out, "jobs": jobs}), *extra], text=given.text, progress=progress))


def check(scenario: Scenario, *, gpu: str | None = None, gpus: int | None = None,
          overrides: Mapping[str, object] | None = None, **sections: object) -> list[Problem]:
    """All problems of a scenario, without running it; [] if it is valid. Arguments are those of run()."""
    given = words.for_input(scenario, gpu, gpus)
    ended = call(["check", given.word, "--json", *words.overrides(overrides, sections)], text=given.text)
    problems = problems_of_json(ended.output)
    if ended.exit_code == _OK:
        return []
    if problems:
        return problems
    raise error_of(ended.exit_code, ended.output, ended.log)


def plan(model: Scenario, *, gpus: int | str | Sequence[int], gpu: str | Sequence[str],
         tokens: float | str | None = None, deadline: float | str | None = None, budget: float | str | None = None,
         usd_per_gpu_hour: float | Mapping[str, float] | None = None, failures: str | Mapping[str, float] | None = None,
         software: str | None = None, memory_margin: float | str | None = None, time_limit: float | None = None, seq_len: int | None = None, global_batch_size: int | None = None,
         precision: str | Sequence[str] | None = None, fix: Mapping[str, object] | None = None,
         against: str | Mapping[str, int] | None = None, objective: str | None = None, top: int | None = None,
         jobs: int | None = None, out: Path | None = None, csv: Path | None = None, report: Path | None = None,
         overrides: Mapping[str, object] | None = None, progress: bool = False, extra: Sequence[str] = (),
         **others: object) -> Plan:
    """Finds the best layouts of a model: a preset's name, a scenario, or a config.json of Hugging Face.

    With several numbers or kinds of GPUs (256, "256..2048", ["h100", "b200"]), a deadline ("90d") or a budget in
    dollars, rows are machines, each with its best layout, days and dollars; else they are layouts.

    Lists and mappings become a,b and h100=2.5,b200=5. `fix={"tp": [4, 8]}` decides axes. `time_limit` is in
    seconds. Sections (training={...}) and `overrides` set fields; any other keyword is an option of
    `shardsim plan --help`: front_within=1.1 is --front-within 1.1.

    Where nothing fits, or nothing is in time and within the budget, `best` raises DoesNotFit. After Ctrl-C,
    Interrupted.partial is the plan as far as it was known.
    """
    sections = {name: value for name, value in others.items() if isinstance(value, Mapping)}
    named = {name: value for name, value in others.items() if name not in sections}
    options = words.options({
        "gpus": gpus, "gpu": gpu, "tokens": tokens, "deadline": deadline, "budget": budget,
        "usd_per_gpu_hour": usd_per_gpu_hour, "failures": failures, "software": software, "memory_margin": memory_margin,
        "time_limit": time_limit, "seq_len": seq_len,
        "global_batch_size": global_batch_size, "precision": precision, "against": against, "objective": objective,
        "top": top, "jobs": jobs, "out": out, "csv": csv, "report": report, **named})
    fixed = [word for axis, value in (fix or {}).items() for word in ("--fix", f"{axis}={words.joined(value)}")]
    with _named_or_file(model) as word:
        try:
            ended = call(["plan", word, "--json", *options, *fixed, *words.overrides(overrides, sections), *extra],
                         progress=progress)
        except Interrupted as stop:
            if _is_object(stop.output):
                stop.partial = Plan(stop.output, _INTERRUPTED)
            raise
    if not _is_object(ended.output):
        raise error_of(ended.exit_code, ended.output, ended.log)
    return Plan(ended.output, ended.exit_code, ended.log)


@contextlib.contextmanager
def _named_or_file(model: Scenario) -> Iterator[str]:
    """`plan` takes a model's name itself."""
    if isinstance(model, str):
        yield model
    else:
        with words.as_file(model) as path:
            yield path


def sweep(scenario: Scenario, axes: Mapping[str, Sequence[object]] | None = None, *, gpu: str | None = None,
          gpus: int | None = None, overrides: Mapping[str, object] | None = None, out: Path | None = None,
          jobs: int | None = None, time_limit: str | None = None, progress: bool = False,
          extra: Sequence[str] = (), **sections: object) -> Sweep:
    """Runs a scenario at each point of the axes, {"parallelism.tp": [1, 2, 4]}, beside those of its sweep block.

    A point that is invalid or does not fit is a row like any other: see its status. With a folder `out` the
    points are kept, and the same call resumes; `time_limit` ("10m") starts no point after it.
    """
    flags = [word for path, values in (axes or {}).items()
             for word in ("--axis", f"{path}={','.join(words.as_value(value) for value in values)}")]
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(words.as_file(scenario, gpu, gpus))
        folder = os.fspath(out) if out is not None else stack.enter_context(tempfile.TemporaryDirectory(prefix="shardsim-"))
        quiet = [] if progress else ["-q"]
        ended = call(["sweep", path, *flags, *words.overrides(overrides, sections), "--out", folder, "--format", "ndjson",
                      *words.options({"jobs": jobs, "time_limit": time_limit}), *quiet, *extra], progress=progress)
    if ended.exit_code != _OK:
        raise error_of(ended.exit_code, ended.output, ended.log)
    return Sweep(ended.output, log=ended.log)


def diff(a: Scenario | Result, b: Scenario | Result | None = None, *, overrides: Mapping[str, object] | None = None,
         measured: Path | None = None, fail_if: str | Sequence[str] = (), progress: bool = False,
         **sections: object) -> Diff:
    """Compares two runs: results, scenarios, or one scenario with itself changed by sections and overrides.

    `measured` is a real run in b's place: a log of Megatron-LM, a profiler's trace. Each of `fail_if` is a limit
    such as "step_time_s > 2%"; `passed` says whether all hold.
    """
    limits = [fail_if] if isinstance(fail_if, str) else list(fail_if)
    with contextlib.ExitStack() as stack:
        sides = [stack.enter_context(_side(side)) for side in (a, b) if side is not None]
        ended = call(["diff", *sides, "--json", *words.overrides(overrides, sections),
                      *words.options({"measured": measured}), *(word for limit in limits for word in ("--fail-if", limit))],
                     progress=progress)
    if not _is_object(ended.output):
        raise error_of(ended.exit_code, ended.output, ended.log)
    return Diff(ended.output, ended.exit_code, ended.log)


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


def presets() -> list[Preset]:
    """All models and systems that the program knows, models first."""
    ended = call(["presets", "--names"])
    if ended.exit_code != _OK:
        raise error_of(ended.exit_code, ended.output, ended.log)
    return [Preset(*line.split(None, 1)) for line in ended.output.splitlines() if line]


def version() -> str:
    """The version of the program: "0.1.0"."""
    return call(["--version"]).output.split()[-1]
