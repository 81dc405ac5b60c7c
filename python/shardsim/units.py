"""Numbers in words, with the three digits and the units of the program's own pages."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence


def number(value: float) -> str:
    """Three digits: "1.59", "53.7", "10,300"."""
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if value == 0:
        return "0"
    rounded = float(f"{value:.2e}")
    size = abs(rounded)
    if size < 0.01 or size >= 1e15:
        return f"{rounded:.2e}"
    if size < 100:
        return f"{rounded:.{3 if size < 1 else 2 if size < 10 else 1}f}"
    return f"{rounded:,.0f}"


def _with_unit(value: float, step: int, units: Sequence[str]) -> str:
    place = 0
    while place + 1 < len(units) and abs(float(f"{value:.2e}")) >= 1000:
        value /= step
        place += 1
    return f"{number(value)} {units[place]}"


def seconds(value: float) -> str:
    """Seconds: "836 ms", "1.59 s"."""
    if value == 0:
        return "0 s"
    if abs(float(f"{value:.2e}")) >= 1:
        return number(value) + " s"
    return _with_unit(value * 1e12, 1000, ("ps", "ns", "us", "ms"))


def memory(value: float) -> str:
    """Bytes: "46.1 GiB"."""
    return _with_unit(value, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))


def traffic(value: float) -> str:
    """Bytes: "6.07 TB"."""
    return _with_unit(value, 1000, ("B", "kB", "MB", "GB", "TB", "PB"))


def metric(name: str, value: object) -> str:
    """In the unit that the metric's name promises."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "" if value is None else str(value)
    last = name.rsplit(".", 1)[-1]
    parts = name.split(".")
    if "bytes_sent" in parts:
        return traffic(value)
    if any(part.endswith("_bytes") for part in parts):
        return memory(value)
    if last in ("mfu", "hfu") or name.startswith("goodput.fraction"):
        return f"{100 * value:.1f} %"
    if not last.startswith("tokens_per_s") and any(part.endswith("_s") for part in parts):
        return seconds(value)
    if isinstance(value, int):
        return f"{value:,}"
    return number(value)


LABELS = {
    "step_time_s": "step",
    "memory.device_bytes.max": "on device",
    "mfu": "MFU",
    "tokens_per_s_per_gpu": "tokens/s/GPU",
    "cost.days": "days",
    "cost.gpu_hours": "GPU hours",
    "cost.usd": "$",
    "gpu_hours": "GPU hours",
    "usd": "$",
    "goodput.fraction": "goodput",
    "gpus": "GPUs",
    "gpu": "GPU",
    "lost_to": "lost to",
}


def label(name: str, has_band: bool = False) -> str:
    """The head of a figure's column, as on the program's pages; with bands the cells are pairs."""
    return LABELS.get(name, name) + " (by the model)" * has_band


def range_of(low: str, high: str) -> str:
    """A range that names one unit once: "1.54 to 1.88 s"."""
    first, _, unit = low.partition(" ")
    return f"{first} to {high}" if unit and high.endswith(" " + unit) else f"{low} to {high}"


def pair(name: str, simulated: object, centre: object) -> str:
    """The centre of the error band, and in brackets what was simulated: "about 1.67 s (1.59 s)"."""
    text = metric(name, simulated)
    return text if simulated is None or centre is None else f"about {metric(name, centre)} ({text})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table of HTML; every text is escaped. Numbers stand to the right, all but the first column."""

    def cells(tag: str, texts: Sequence[str]) -> str:
        return (
            "<tr>"
            + "".join(
                f'<{tag} style="text-align:{"left" if place == 0 else "right"}">'
                f"{html.escape(text)}</{tag}>"
                for place, text in enumerate(texts)
            )
            + "</tr>"
        )

    title = f'<caption style="text-align:left">{html.escape(caption)}</caption>' if caption else ""
    body = "".join(cells("td", row) for row in rows)
    inner = f"{title}<thead>{cells('th', head)}</thead><tbody>{body}</tbody>"
    return f'<table style="white-space:nowrap">{inner}</table>'


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of text, the first column to the left and the others to the right."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))] if rows else []
    return [
        "  "
        + "  ".join(
            text.ljust(width) if place == 0 else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
