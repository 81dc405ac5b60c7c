"""The answer of `plan`: rows, best first, each a layout or a machine."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shardsim import units
from shardsim.errors import DoesNotFit, Problem
from shardsim.frames import flat, frame
from shardsim.figures import DEVICE_MEMORY, STEP
from shardsim.printed import Printed

if TYPE_CHECKING:
    import pandas

_LISTS = ("rows", "ranked")  # The first that the program's JSON has.
_HOLDS = "holds"
_SHORT = {"fields": "", "metrics": ""}  # Their names alone are clear.


def rows_of(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows, best first. A comparison of precisions has those of all, with their precision."""
    if "precisions" in raw:
        return [
            {"precision": part["precision"], **row} for part in raw["precisions"] for row in rows_of(part)
        ]
    name = next((name for name in _LISTS if name in raw), None)
    return [dict(row) for row in raw[name]] if name else []


def columns_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as columns: fields and metrics by their names, ranges and bands as days.low, days.centre, ..."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if key == "error_bands" and isinstance(value, Mapping):
            for metric, band in value.items():
                found.update({f"{metric}.{end}": band[end] for end in ("low", "centre", "high")})
        elif isinstance(value, Mapping):
            found.update(flat(value, _SHORT.get(key, key)))
        elif key == "lost_to":
            found[key] = ", ".join(value)
        else:
            found[key] = value
    return found


def holds(row: Mapping[str, Any]) -> bool:
    """Whether it is a layout that fits, or a machine that is in time and within the budget."""
    return bool(row.get("fate", _HOLDS) == _HOLDS)


class Plan(Printed):
    """The rows that `plan` found, best first. `raw` has all that the program said."""

    def __init__(self, text: str, exit_code: int = 0, log: str = "") -> None:
        super().__init__(text, exit_code, log)
        self.rows = rows_of(self.raw)

    @property
    def _parts(self) -> list[dict[str, Any]]:
        return self.raw.get("precisions") or [self.raw]

    @property
    def complete(self) -> bool:
        """Whether nothing is left to search: the first row is proven to be the best."""
        return all(part.get("complete", False) for part in self._parts)

    @property
    def gap(self) -> float | None:
        """How much slower than the best possible the best can be at most: 0.01 is 1 %. None if unknown."""
        return self.raw.get("gap")

    @property
    def warnings(self) -> list[str]:
        return [text for part in self._parts for text in part.get("warnings", [])]

    @property
    def assumptions(self) -> list[str]:
        """The choices that nobody has made, in sentences: batch, precision, software."""
        return list(dict.fromkeys(text for part in self._parts for text in part.get("assumptions", [])))

    @property
    def best(self) -> dict[str, Any]:
        """The first row. Raises DoesNotFit where nothing fits, or is in time and within the budget."""
        if not self.rows or not holds(self.rows[0]):
            raise DoesNotFit(
                [
                    Problem(
                        "DOES_NOT_FIT",
                        self._why_nothing(),
                        "take more GPUs, or others; the rows have what each lost to",
                    )
                ]
            )
        return self.rows[0]

    def _why_nothing(self) -> str:
        if self.rows:
            first = self.rows[0]
            return f"no machine holds; the first, {first['gpus']:,} {first['gpu']}: {first['reason']}"
        least = self.raw.get("least_that_did_not_fit")
        if least is None:
            return "no layout that fits was found"
        reach = "at least " if least.get("is_lower_bound") else ""
        return f"no layout fits; the smallest, {least['layout']}, needs {reach}{units.memory(least['bytes'])}"

    def df(self) -> pandas.DataFrame:
        """A row each, best first. Raises ImportError without pandas."""
        return frame([columns_of(row) for row in self.rows], index=range(1, len(self.rows) + 1), name="rank")

    def title(self) -> str:
        """Such as "gpt2-xl on 8 GPUs of NVIDIA DGX H100, complete"; for machines, how many hold."""
        first = self._parts[0]
        words = f"{first.get('model', 'plan')}"
        if "gpus" in first and "system" in first:
            words += f" on {first['gpus']:,} GPUs of {first['system']}"
        elif "rows" in first:
            held = sum(map(holds, self.rows))
            words += f", {len(self.rows)} machines, {held} of them in time and within the budget"
        return words + (", complete" if self.complete else ", stopped before the search was complete")

    def _table(self, most: int) -> list[list[str]]:
        """The head and the first rows, as text. A figure with a band is the band's centre."""
        rows = [columns_of(row) for row in self.rows[:most]]
        names = _OF_MACHINES if "rows" in self.raw else _OF_LAYOUTS
        columns = [(head, texts) for name in names for head, texts in _texts(name, rows) if any(texts)]
        return [
            ["rank", *(head for head, _ in columns)],
            *([str(place + 1), *(texts[place] for _, texts in columns)] for place in range(len(rows))),
        ]

    def __repr__(self) -> str:
        if not self.rows:
            return f"{self.title()}\n  {self._why_nothing()}"
        more = len(self.rows) - _MOST_ROWS
        return "\n".join(
            [
                self.title(),
                *units.columns(self._table(_MOST_ROWS)),
                *([f"  and {more} more rows"] if more > 0 else []),
            ]
        )

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<div>{html.escape(self.title())}<br>{html.escape(self._why_nothing())}</div>"
        head, *body = self._table(_MOST_ROWS)
        return units.table(head, body, self.title())


_MOST_ROWS = 20
# Columns of a table, as far as the rows have them.
_OF_LAYOUTS = ("precision", "layout", STEP, DEVICE_MEMORY, "mfu", "tokens_per_s_per_gpu")
_OF_MACHINES = ("gpus", "gpu", "fate", "lost_to", "days", "gpu_hours", "usd", DEVICE_MEMORY, "layout")


def _texts(name: str, rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """The columns of a figure: centres of bands before what was simulated. Days have their range, too."""
    simulated = [row.get(f"{name}.by_the_model", row.get(name)) for row in rows]
    centres = [row.get(f"{name}.centre") for row in rows]
    head = units.label(name, any(centre is not None for centre in centres))
    found = [(head, [units.pair(name, value, centre) for value, centre in zip(simulated, centres)])]
    if name == "days":
        found.append(("measured runs", [_range(row.get("days.low"), row.get("days.high")) for row in rows]))
    return found


def _range(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else units.range_of(units.number(low), units.number(high))
