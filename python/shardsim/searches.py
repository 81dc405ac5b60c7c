"""The verbs that look at many layouts, as functions: plan and sweep. Errors are those of verbs.py."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence

from shardsim import words
from shardsim.errors import Interrupted, ShardsimError, error_of, is_result
from shardsim.plans import Plan
from shardsim.program import INTERRUPTED, call
from shardsim.sweeps import Sweep
from shardsim.words import Path, Scenario


def plan(
    model: Scenario,
    *,
    gpus: int | str | Sequence[int],
    gpu: str | Sequence[str],
    tokens: float | str | None = None,
    deadline: float | str | None = None,
    budget: float | str | None = None,
    usd_per_gpu_hour: float | Mapping[str, float] | None = None,
    failures: str | Mapping[str, float] | None = None,
    software: str | None = None,
    memory_margin: float | str | None = None,
    time_limit: float | None = None,
    seq_len: int | None = None,
    global_batch_size: int | None = None,
    precision: str | Sequence[str] | None = None,
    fix: Mapping[str, object] | None = None,
    against: str | Mapping[str, int] | None = None,
    objective: str | None = None,
    top: int | None = None,
    jobs: int | None = None,
    out: Path | None = None,
    csv: Path | None = None,
    report: Path | None = None,
    overrides: Mapping[str, object] | None = None,
    progress: bool = False,
    extra: Sequence[str] = (),
    **others: object,
) -> Plan:
    """Finds the best layouts of a model: a preset's name, a scenario, or a config.json of Hugging Face.

    Rows are layouts. With several numbers of GPUs ("256..2048") or kinds (["h100", "b200"]), a deadline ("90d")
    or a budget in dollars, rows are machines. Each has its best layout, days and dollars.

    Lists and mappings become a,b and h100=2.5,b200=5. `fix={"tp": [4, 8]}` decides axes. `time_limit` is in
    seconds. Sections (training={...}) and `overrides` set fields; any other keyword is an option of
    `shardsim plan --help`: front_within=1.1 is --front-within 1.1.

    Where nothing fits, or nothing is in time and within the budget, `best` raises DoesNotFit. After Ctrl-C,
    Interrupted.partial is the plan as far as it was known.
    """
    sections = {name: value for name, value in others.items() if isinstance(value, Mapping)}
    named = {name: value for name, value in others.items() if name not in sections}
    options = words.options(
        {
            "gpus": gpus,
            "gpu": gpu,
            "tokens": tokens,
            "deadline": deadline,
            "budget": budget,
            "usd_per_gpu_hour": usd_per_gpu_hour,
            "failures": failures,
            "software": software,
            "memory_margin": memory_margin,
            "time_limit": time_limit,
            "seq_len": seq_len,
            "global_batch_size": global_batch_size,
            "precision": precision,
            "against": against,
            "objective": objective,
            "top": top,
            "jobs": jobs,
            "out": out,
            "csv": csv,
            "report": report,
            **named,
        }
    )
    fixed = [
        word for axis, value in (fix or {}).items() for word in ("--fix", f"{axis}={words.joined(value)}")
    ]
    return _planned(model, [*options, *fixed, *words.overrides(overrides, sections), *extra], progress)


def _planned(model: Scenario, asked: Sequence[str], progress: bool) -> Plan:
    """The plan; one that was stopped goes with the exception."""
    with _named_or_file(model) as word:
        try:
            ended = call(["plan", word, "--json", *asked], progress=progress)
        except Interrupted as stop:
            if is_result(stop.output):
                stop.partial = Plan(stop.output, INTERRUPTED)
            raise
    return Plan.of(ended)


@contextlib.contextmanager
def _named_or_file(model: Scenario) -> Iterator[str]:
    """`plan` takes a model's name itself."""
    if isinstance(model, str):
        yield model
    else:
        with words.as_file(model) as path:
            yield path


def sweep(
    scenario: Scenario,
    axes: Mapping[str, Sequence[object]] | None = None,
    *,
    gpu: str | None = None,
    gpus: int | None = None,
    overrides: Mapping[str, object] | None = None,
    out: Path | None = None,
    jobs: int | None = None,
    time_limit: str | None = None,
    progress: bool = False,
    extra: Sequence[str] = (),
    **sections: object,
) -> Sweep:
    """Runs a scenario at each point of the axes, {"parallelism.tp": [1, 2, 4]}, and of its sweep block.

    A point that is invalid or does not fit is a row like any other: see its status. With a folder `out` the
    points are kept, and the same call resumes; `time_limit` ("10m") starts no point after it. After Ctrl-C,
    Interrupted.partial has the points that were done.
    """
    flags = [
        word
        for path, values in (axes or {}).items()
        for word in ("--axis", f"{path}={','.join(words.as_value(value) for value in values)}")
    ]
    with words.as_file(scenario, gpu, gpus) as path, _folder_of(out) as folder:
        asked = [path, *flags, *words.overrides(overrides, sections), "--out", folder, *extra]
        try:
            return _swept([*asked, *words.options({"jobs": jobs, "time_limit": time_limit})], progress)
        except Interrupted as stop:
            with contextlib.suppress(ShardsimError):  # It was stopped before it had begun.
                stop.partial = _swept([*asked, "--time-limit", "0s"], False)
            raise


@contextlib.contextmanager
def _folder_of(out: Path | None) -> Iterator[str]:
    """The folder of the points: the user's, or a temporary one."""
    if out is not None:
        yield os.fspath(out)
    else:
        with tempfile.TemporaryDirectory(prefix="shardsim-") as folder:
            yield folder


def _swept(asked: Sequence[str], progress: bool) -> Sweep:
    """The rows of the points that are done."""
    quiet = [] if progress else ["-q"]
    ended = call(["sweep", *asked, "--format", "ndjson", *quiet], progress=progress)
    if ended.exit_code != 0:
        raise error_of(ended.exit_code, ended.output, ended.log)
    return Sweep(ended.output, log=ended.log)
