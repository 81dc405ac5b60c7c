"""Arguments of Python as words of the command line: scenarios, overrides, lists and prices.

A scenario is the path of a file, a dict with the keys of a file, or the name of a model preset. A name
means the scenario that `shardsim init` writes for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Union

from shardsim import program
from shardsim.errors import error_of

Path = Union[str, "os.PathLike[str]"]
Scenario = Union[str, "os.PathLike[str]", Mapping[str, Any]]
"""The path of a file, a dict, or a model preset's name."""

SCHEMA_VERSION = 1
_OF_STANDARD_INPUT = "-"


class Input(NamedTuple):
    """A scenario as the program reads it: the word for it, and what standard input holds."""

    word: str
    text: str | None


def plain(value: object) -> Any:
    """A value as JSON has it: numbers of numpy, paths, mappings and sequences too. Raises TypeError."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        return plain(value.item())  # A number of numpy.
    if isinstance(value, Sequence) or hasattr(value, "tolist"):
        return [plain(item) for item in (value.tolist() if hasattr(value, "tolist") else value)]
    raise TypeError(f"{value!r} is no value of a scenario: give a number, a string, a list or a mapping")


def as_value(value: object) -> str:
    """The right side of `--set a.b=value`: JSON, or a string that is no JSON."""
    value = plain(value)
    if isinstance(value, str) and value:
        with contextlib.suppress(ValueError):
            json.loads(value)
            return json.dumps(value)  # "8" shall stay a string.
        return value
    return json.dumps(value)


def _flat(prefix: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), item)
    else:
        yield prefix, value


def overrides(given: Mapping[str, object] | None, sections: Mapping[str, object]) -> list[str]:
    """The words `--set a.b=value`: those of the sections, then those of `given`, so the latter win."""
    fields = [*_flat("", sections)] if sections else []
    fields += [*_flat("", given)] if given else []
    return [word for path, value in fields for word in ("--set", f"{path}={as_value(value)}")]


def joined(value: object) -> str:
    """An option's value: "a,b" of a list, "h100=2.5,b200=5" of a mapping."""
    if isinstance(value, Mapping):
        return ",".join(f"{key}={joined(item)}" for key, item in value.items())
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    value = plain(value)
    if isinstance(value, list):
        return ",".join(joined(item) for item in value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # 6e6 is 6000000.
    return json.dumps(value)


def options(given: Mapping[str, object]) -> list[str]:
    """Words such as `--time-limit 10`: of each keyword that is not None. True is a flag; False is none."""
    words: list[str] = []
    for name, value in given.items():
        if value is None or value is False:
            continue
        flag = "--" + name.replace("_", "-")
        words += [flag] if value is True else [flag, joined(value)]
    return words


def names_a_model(scenario: Scenario) -> bool:
    """Whether it is the name of a preset, and neither a dict nor a file."""
    return (
        isinstance(scenario, str)
        and not scenario.endswith(".json")
        and os.sep not in scenario
        and not os.path.exists(scenario)
    )


def first_scenario(model: str, gpu: str | None, gpus: int | None) -> str:
    """The text of the scenario that `shardsim init` writes. Raises UsageError."""
    words = ["init", "--model", model, *options({"gpu": gpu, "gpus": gpus}), "-o", "-", "-q"]
    ended = program.call(words)
    if ended.exit_code != 0:
        raise error_of(ended.exit_code, "", ended.log)
    return ended.output


def text_of(scenario: Scenario, gpu: str | None, gpus: int | None) -> str | None:
    """The text of a scenario that is no file, else None. Raises TypeError and UsageError."""
    if names_a_model(scenario):
        assert isinstance(scenario, str)
        return first_scenario(scenario, gpu, gpus)
    if gpu is not None or gpus is not None:
        raise TypeError(
            "gpu and gpus go with a model's name; of a scenario, set system={\"preset\": ..., \"nodes\": ...}"
        )
    if isinstance(scenario, Mapping):
        return json.dumps({"schema_version": SCHEMA_VERSION, **plain(scenario)}, indent=1)
    return None


def for_input(scenario: Scenario, gpu: str | None = None, gpus: int | None = None) -> Input:
    """For verbs that read standard input. Relative paths in a dict begin at the current folder."""
    text = text_of(scenario, gpu, gpus)
    if text is not None:
        return Input(_OF_STANDARD_INPUT, text)
    assert not isinstance(scenario, Mapping)
    return Input(os.fspath(scenario), None)


@contextlib.contextmanager
def as_file(scenario: Scenario, gpu: str | None = None, gpus: int | None = None) -> Iterator[str]:
    """For verbs that read files alone: the path, of a temporary file for a dict."""
    text = text_of(scenario, gpu, gpus)
    if text is None:
        assert not isinstance(scenario, Mapping)
        yield os.fspath(scenario)
        return
    with tempfile.TemporaryDirectory(prefix="shardsim-") as folder:
        path = pathlib.Path(folder) / "scenario.json"
        path.write_text(text, encoding="utf-8")
        yield str(path)
