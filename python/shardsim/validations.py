"""Predictions beside published measurements, table by table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardsim import units
from shardsim.figures import STEP
from shardsim.frames import frame
from shardsim.printed import Printed

if TYPE_CHECKING:
    import pandas

_QUANTITIES = (STEP, "peak_memory_bytes")


class Validation(Printed):
    """Measured runs and what the model says of them. `raw` has all that the program said."""

    @property
    def overall(self) -> dict[str, dict[str, Any]]:
        """The errors over all tables by quantity, "step_time_s" and "peak_memory_bytes"."""
        return dict(self.raw["overall"])

    def rows(self) -> list[dict[str, Any]]:
        """A measured quantity each: table, line, label, quantity, measured, predicted, error."""
        return [
            {
                "table": table["name"],
                "line": row["line"],
                "label": row["label"],
                "quantity": quantity,
                **{key: row[quantity][key] for key in ("measured", "predicted", "error")},
            }
            for table in self.raw["tables"]
            for row in table["rows"]
            for quantity in _QUANTITIES
            if row.get(quantity)
        ]

    def df(self) -> pandas.DataFrame:
        """The rows, by table and line. Raises ImportError without pandas."""
        return frame(self.rows()).set_index(["table", "line"])

    def title(self) -> str:
        names = [table["name"] for table in self.raw["tables"]]
        what = names[0] if len(names) == 1 else f"{len(names)} tables of measured runs"
        return f"{what}: {len(self.rows())} measured values"

    def _table(self) -> list[list[str]]:
        table = [["quantity", "rows", "mean error", "median error", "bias"]]
        for name, figures in self.overall.items():
            shares = (figures[key] for key in ("mean_absolute_error", "median_absolute_error", "bias"))
            table.append([name, f"{figures['rows']:,}", *(f"{100 * share:.1f} %" for share in shares)])
        return table

    def __repr__(self) -> str:
        return "\n".join([self.title(), *units.columns(self._table())])

    def _repr_html_(self) -> str:
        head, *body = self._table()
        return units.table(head, body, self.title())
