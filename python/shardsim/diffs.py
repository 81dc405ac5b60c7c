"""The comparison of two runs: where time and memory went, and one sentence."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from shardsim import units
from shardsim.frames import frame
from shardsim.figures import STEP, Band
from shardsim.printed import Printed

if TYPE_CHECKING:
    import pandas

_PS_PER_S = 1e12


class Diff(Printed):
    """Two runs beside each other. `raw` has all that the program said; rows add up to their total exactly."""

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        return str(self.raw["sentence"])

    @property
    def verdict(self) -> str:
        """The word of error bands: "distinguishable", "within_band", "unlike" or "no_band"."""
        return str(self.raw["verdict"])

    @property
    def passed(self) -> bool:
        """Whether no limit of fail_if is exceeded."""
        return self.exit_code == 0

    @property
    def metrics(self) -> dict[str, tuple[float, float]]:
        """The metrics of both runs by name: (a, b)."""
        return {row["name"]: (row["a"], row["b"]) for row in self.raw["metrics"]}

    @property
    def fields(self) -> dict[str, tuple[str, str]]:
        """The fields of the scenarios that differ: (a, b); "" where one has it not."""
        return {row["path"]: (row["a"], row["b"]) for row in self.raw.get("fields", [])}

    def rows(self) -> list[dict[str, Any]]:
        """Totals and parts of time in seconds and of memory in bytes: table, name, a, b, difference."""
        found = []
        for key, table, unit in (("time_ps", "step_time_s", _PS_PER_S), ("memory_bytes", "memory_bytes", 1)):
            block = self.raw.get(key)
            for row in [block["total"], *block["parts"]] if block else []:
                found.append(
                    {
                        "table": table,
                        "name": row["name"],
                        **{
                            side: row[side] / unit if unit != 1 else row[side]
                            for side in ("a", "b", "difference")
                        },
                    }
                )
        return found

    def df(self) -> pandas.DataFrame:
        """The rows, by table and name. Raises ImportError without pandas."""
        return frame(self.rows()).set_index(["table", "name"])

    def _table(self) -> list[list[str]]:
        table = [["", "A", "B", "difference"]]
        for row in self.rows():
            a, b, difference = (units.metric(row["table"], row[side]) for side in ("a", "b", "difference"))
            table.append(
                [
                    row["name"],
                    a,
                    b,
                    "=" if row["difference"] == 0 else ("+" if row["difference"] > 0 else "") + difference,
                ]
            )
        return table

    def lines(self) -> list[str]:
        """Each side and where measured runs like it lie; the tables are by the model."""
        found = []
        for side in ("a", "b"):
            found.append(f"{side.upper()}  {self.raw[side]['what']}")
            for raw in self.raw[side].get("error_bands", []):
                band, what = Band.of(raw["metric"], raw), "step" if raw["metric"] == STEP else "on device"
                model = raw.get("by_the_model")
                beside = "" if model is None else f"; {band.by_the_model(model)}"
                found.append(f"{side.upper()}  {what} {band.words()} ({band.group}){beside}")
        return found

    def __repr__(self) -> str:
        return "\n".join([*self.lines(), *units.columns(self._table()), self.sentence])

    def _repr_html_(self) -> str:
        head, *body = self._table()
        sides = "<br>".join(html.escape(line) for line in self.lines())
        return f"<div>{sides}</div>{units.table(head, body)}<div>{html.escape(self.sentence)}</div>"
