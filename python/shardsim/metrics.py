"""The metrics of a run, by their names and as attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Union

from shardsim import units

Value = Union[int, float, bool, str, None]
"""A metric's value. None stands for a number that is not finite."""


class Metrics(Mapping[str, Value]):
    """Metrics by their whole names, and by attributes: metrics.memory.device_bytes.max."""

    def __init__(self, values: Mapping[str, Value], prefix: str = "") -> None:
        self._values, self._prefix = values, prefix

    def __getitem__(self, name: str) -> Value:
        return self._values[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        return (name[len(self._prefix) :] for name in self._values if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copy and pickle ask before there are values.
            raise AttributeError(name)
        path = self._prefix + name
        if path in self._values:
            return self._values[path]
        if any(other.startswith(path + ".") for other in self._values):
            return Metrics(self._values, path + ".")
        raise AttributeError(f"this run has no metric {path!r}; .metrics lists those it has")

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *(name.split(".")[0] for name in self)})

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {units.metric(self._prefix + name, self[name])}" for name in self)
