"""Numbers with their error bands: where measured runs like this one lie, beside what was simulated."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from shardsim import units

STEP, DEVICE_MEMORY = "step_time_s", "memory.device_bytes.max"


@dataclasses.dataclass(frozen=True)
class Band:
    """Where measured runs like this one lie, in the metric's unit."""

    metric: str
    low: float
    centre: float  # the headline: "about 1.67 s"
    high: float
    runs: int  # measurements behind it
    group: str  # what they have in common: "dense models on hopper"
    held_out_share: float  # the share of measured runs that such bands held
    too_few: str = ""  # of what there are too few measurements: "under torchtitan-2025"
    bias: float | None = None  # mean of predicted / measured - 1 of those runs
    raw: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, metric: str, raw: Mapping[str, Any]) -> Band:
        return cls(
            metric,
            raw["low"],
            raw["centre"],
            raw["high"],
            raw.get("runs", 0),
            raw["group"],
            raw["held_out_share"],
            raw.get("too_few", ""),
            raw.get("bias"),
            raw,
        )

    def words(self) -> str:
        """Such as "about 1.67 s, 70 % of runs 1.54 to 1.88 s"."""
        low, centre, high = (units.metric(self.metric, value) for value in (self.low, self.centre, self.high))
        return f"about {centre}, {10 * round(10 * self.held_out_share)} % of runs {units.range_of(low, high)}"

    def evidence(self, ranks: int | None = None) -> str:
        """Such as "85 measured of dense models on hopper, too few under torchtitan-2025"."""
        text = f"{self.runs:,} measured of {self.group}" + (
            f", too few {self.too_few}" if self.too_few else ""
        )
        most, least = self.raw.get("most_ranks"), self.raw.get("least_ranks")
        if ranks is not None and most is not None and ranks > most:
            return text + f", up to {most:,} GPUs"
        if ranks is not None and least is not None and ranks < least:
            return text + f", from {least:,} GPUs"
        return text

    def by_the_model(self, simulated: float) -> str:
        """Such as "by the model 1.59 s"; what lies outside of the band is said to."""
        text = "by the model " + units.metric(self.metric, simulated)
        if self.low <= simulated <= self.high or self.bias is None:
            return text
        return text + f" (outside that range: this group's bias is {100 * self.bias:+.0f} %)"


@dataclasses.dataclass(frozen=True)
class Figure:
    """A number as pages show it: the centre of its band, and beside it what was simulated."""

    metric: str
    value: float  # the band's centre, or else what was simulated
    by_the_model: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        text = units.metric(self.metric, self.value)
        if self.low is None or self.high is None:
            return text
        reach = units.range_of(units.metric(self.metric, self.low), units.metric(self.metric, self.high))
        return f"about {text} ({reach}, by the model {units.metric(self.metric, self.by_the_model)})"
