"""Rows of plain values as DataFrames of pandas, which is imported when one is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} as {"a.b": 1}. Lists stay values."""
    found: dict[str, Any] = {}
    for key, item in value.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(item, Mapping) and item:
            found.update(flat(item, path))
        else:
            found[path] = item
    return found


def frame(
    rows: Sequence[Mapping[str, Any]], index: Sequence[Any] | None = None, name: str | None = None
) -> pandas.DataFrame:
    """A row each; missing values are NaN. Raises ImportError where pandas is not installed."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "a DataFrame needs pandas, which is not installed: pip install pandas, or "
            "apt install python3-pandas. Without it, .rows, .metrics and .raw have the same values"
        ) from error
    table = pandas.DataFrame(list(rows), index=None if index is None else list(index))
    if name is not None:
        table.index.name = name
    return table
