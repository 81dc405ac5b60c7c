"""The points of a sweep: one row each, with the axes' values, how the run ended, and its metrics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shardsim import units
from shardsim.errors import DoesNotFit, Problem
from shardsim.frames import frame
from shardsim.figures import DEVICE_MEMORY, STEP

if TYPE_CHECKING:
    import pandas

_MOST_ROWS = 20
_CENTRE = ".band_centre"  # of the column that has a metric's error band
_KEPT = ("point", "key", "status", "code", "message", "warnings")


class Sweep:
    """The rows of a sweep, in the order of points, the last axis fastest."""

    def __init__(self, text: str, axes: Sequence[str] = (), log: str = "") -> None:
        self.json = text  # as the program printed it: an object in each line
        self.log = log
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines() if line]
        self.axes = list(axes) or self._axes_of_rows()

    def _axes_of_rows(self) -> list[str]:
        """The columns between a point's state and its first metric, the time of its step."""
        names = list(self.rows[0]) if self.rows else []
        end = names.index(STEP) if STEP in names else len(names)
        return [name for name in names[:end] if name not in _KEPT]

    @property
    def ok(self) -> list[dict[str, Any]]:
        """The rows that ran and fit."""
        return [row for row in self.rows if row["status"] == "ok"]

    def best(self, metric: str = STEP, *, largest: bool | None = None) -> dict[str, Any]:
        """The row with the least of a metric; of rates and shares with the largest, unless said otherwise.

        Raises DoesNotFit where no point fits, and KeyError where no point has the metric.
        """
        if not self.ok:
            raise DoesNotFit(
                [Problem("DOES_NOT_FIT", f"none of {len(self.rows)} points fits", "see the column message")]
            )
        rows = [row for row in self.ok if row.get(metric) is not None]
        if not rows:
            raise KeyError(f"no point has the metric {metric!r}")
        if largest is None:
            largest = metric in ("mfu", "hfu") or "_per_s" in metric or metric.startswith("goodput.")
        return (max if largest else min)(rows, key=lambda row: float(row[metric]))

    def df(self) -> pandas.DataFrame:
        """A row for each point; columns without any value are left out. Raises ImportError without pandas."""
        used = [
            name
            for name in (self.rows[0] if self.rows else {})
            if name not in ("key", "point") and any(row.get(name) not in (None, "", []) for row in self.rows)
        ]
        rows = [{name: row.get(name) for name in used} for row in self.rows]
        return frame(rows, index=[row["point"] for row in self.rows], name="point")

    def title(self) -> str:
        return f"{len(self.rows)} points, {len(self.ok)} ok"

    def _table(self) -> list[list[str]]:
        shown = [
            *self.axes,
            "status",
            *(
                name
                for name in (STEP, DEVICE_MEMORY, "mfu", "tokens_per_s_per_gpu")
                if any(row.get(name) is not None for row in self.rows)
            ),
        ]
        has_band = {name for name in shown if any(row.get(name + _CENTRE) is not None for row in self.rows)}
        table = [["point", *(units.label(name, name in has_band) for name in shown)]]
        table += [
            [str(row["point"]), *(units.pair(name, row.get(name), row.get(name + _CENTRE)) for name in shown)]
            for row in self.rows[:_MOST_ROWS]
        ]
        return table

    def __repr__(self) -> str:
        more = len(self.rows) - _MOST_ROWS
        return "\n".join(
            [self.title(), *units.columns(self._table()), *([f"  and {more} more"] if more > 0 else [])]
        )

    def _repr_html_(self) -> str:
        head, *body = self._table()
        return units.table(head, body, self.title())
