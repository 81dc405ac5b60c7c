"""The result of a run: the program's JSON with names on it. `shardsim schema result` describes each key."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from shardsim import units
from shardsim.errors import CheckFailed, DoesNotFit, Problem
from shardsim.figures import DEVICE_MEMORY, STEP, Band, Figure
from shardsim.frames import frame
from shardsim.metrics import Metrics
from shardsim.printed import Printed

if TYPE_CHECKING:
    import pandas

_IN_PROPORTION_TO_STEP = ("cost.days", "cost.gpu_hours", "cost.usd")
_SHOWN = (STEP, DEVICE_MEMORY, "mfu", "tokens_per_s_per_gpu", *_IN_PROPORTION_TO_STEP, "goodput.fraction")
_EXIT_CODE_OF_NO_FIT = 3


class Result(Printed):
    """The result of one run. Metrics are attributes, too: result.mfu, result.time.compute_s."""

    def __init__(self, text: str, exit_code: int = 0, log: str = "") -> None:
        super().__init__(text, exit_code, log)
        self.metrics = Metrics(self.raw["metrics"])
        self.bands = {
            band["metric"]: Band.of(band["metric"], band) for band in self.raw.get("error_bands", [])
        }

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "metrics":  # copy and pickle ask before there are any.
            raise AttributeError(name)
        return getattr(self.metrics, name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *(name.split(".")[0] for name in self.metrics)})

    @property
    def name(self) -> str:
        return str(self.scenario.get("name", ""))

    @property
    def scenario(self) -> dict[str, Any]:
        """The scenario with nothing left out: presets merged, defaults written."""
        return dict(self.raw["scenario"])

    @property
    def step_time_s(self) -> float:
        """Seconds of a step, by the model. figure("step_time_s") has the band's centre beside it."""
        return float(self.raw["metrics"][STEP])

    @property
    def mfu(self) -> float:
        """Model FLOPs utilization, from 0 to 1, by the model."""
        return float(self.raw["metrics"]["mfu"])

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Tokens per second and GPU, by the model."""
        return float(self.raw["metrics"]["tokens_per_s_per_gpu"])

    @property
    def fits(self) -> bool:
        """Whether the device has the memory that the plan needs."""
        return self.exit_code != _EXIT_CODE_OF_NO_FIT

    @property
    def passed(self) -> bool:
        """Whether the plan fits, and all checks and expectations hold."""
        return self.exit_code == 0

    @property
    def warnings(self) -> list[str]:
        return list(self.raw["warnings"])

    @property
    def assumptions(self) -> list[dict[str, str]]:
        """Numbers and simplifications that the result rests on: {"text": ..., "source": ...}."""
        return list(self.raw["assumptions"])

    @property
    def diagnosis(self) -> dict[str, Any] | None:
        """The failed communication, if one failed."""
        return self.raw.get("diagnosis")

    def figure(self, metric: str) -> Figure:
        """A metric with its error band: its own, or that of the step for days, GPU hours and dollars.

        Raises KeyError where the run has no such metric, and TypeError where it is no number.
        """
        value = self.metrics[metric]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"{metric} is no number: {value!r}")
        band, factor = self.bands.get(metric), 1.0
        if band is None and metric in _IN_PROPORTION_TO_STEP and STEP in self.bands:
            band, factor = self.bands[STEP], value / self.step_time_s
        if band is None:
            return Figure(metric, value, value)
        return Figure(metric, band.centre * factor, value, band.low * factor, band.high * factor)

    def failures(self) -> list[Problem]:
        """Checks and expectations that do not hold."""
        found = [
            Problem(str(check["name"]), str(check["detail"]))
            for check in self.raw["checks"]
            if not check["passed"]
        ]
        return found + [
            Problem("EXPECT", f"{row['metric']} {row['op']} {row['expected']}: {row['actual']}")
            for row in self.raw["expectations"]
            if not row["passed"]
        ]

    def require(self) -> Result:
        """This result. Raises DoesNotFit or CheckFailed unless it has passed."""
        if self.passed:
            return self
        kind = CheckFailed if self.fits else DoesNotFit
        raise kind(self.failures() or [Problem("FAILED", self.verdict())], result=self)

    def verdict(self) -> str:
        """ "OK", "DOES NOT FIT", or "FAILED" with the checks and expectations that do not hold."""
        if self.exit_code == 0:
            return "OK"
        if not self.fits:
            return "DOES NOT FIT"
        return "FAILED: " + (
            "; ".join(problem.message for problem in self.failures()) or f"exit code {self.exit_code}"
        )

    def df(self) -> pandas.DataFrame:
        """One row: a column for each metric. Raises ImportError without pandas."""
        return frame([dict(self.metrics)], index=[self.name], name="run")

    def lines(self) -> list[str]:
        """The first lines of the program's page."""
        lines = [self.name] if self.name else []
        if not self._is_number(STEP):
            return [*lines, "  " + self.verdict()]
        step, ranks = self.bands.get(STEP), self.raw["metrics"].get("ranks")
        figures = ["step " + units.seconds(self.step_time_s)]
        if step is not None:
            lines.append(f"  step {step.words()} ({step.evidence(ranks)})")
            figures = [step.by_the_model(self.step_time_s)]
        for metric, words in (
            ("mfu", "MFU {}"),
            ("tokens_per_s_per_gpu", "{} tokens/s/GPU"),
            ("model_tflops_per_gpu", "{} TFLOP/s/GPU"),
        ):
            if self._is_number(metric):
                figures.append(words.format(units.metric(metric, self.metrics[metric])))
        lines.append("  " + "   ".join(figures))
        if "no_error_band" in self.raw:
            lines.append(f"  error band none: {self.raw['no_error_band']}")
        if self._is_number(DEVICE_MEMORY):
            lines.append(f"  on device {self.figure(DEVICE_MEMORY)}")
        if self._is_number("cost.days"):
            lines.append("  training " + self._cost())
        return [*lines, *(f"  warning: {warning}" for warning in self.warnings), "  " + self.verdict()]

    def _cost(self) -> str:
        """The words for days, GPU hours and dollars: "about 91.2 days (84.5 to 103, by the model 86.9), $280,000"."""
        days, range_and_more = str(self.figure("cost.days")), ""
        if "(" in days:
            days, _, range_and_more = days.partition(" (")
        text = f"{days} days" + (f" ({range_and_more}" if range_and_more else "")
        text += f", {units.number(self.figure('cost.gpu_hours').value)} GPU hours"
        return text + (
            f", ${units.number(self.figure('cost.usd').value)}" if self._is_number("cost.usd") else ""
        )

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        rows = [self._row(metric) for metric in _SHOWN if self._is_number(metric)]
        notes = "".join(f"<div>warning: {html.escape(warning)}</div>" for warning in self.warnings)
        head = ["", "about", "measured runs", "by the model"]
        return units.table(head, rows, f"{self.name}: {self.verdict()}") + notes

    def _row(self, metric: str) -> list[str]:
        figure, label = self.figure(metric), units.label(metric)
        simulated = units.metric(metric, figure.by_the_model)
        if figure.low is None or figure.high is None:
            return [label, "", "", simulated]
        reach = units.range_of(units.metric(metric, figure.low), units.metric(metric, figure.high))
        return [label, units.metric(metric, figure.value), reach, simulated]

    def _is_number(self, metric: str) -> bool:
        """Whether the run has it: null stands for what is not finite."""
        value = self.metrics.get(metric)
        return isinstance(value, (int, float)) and not isinstance(value, bool)
