"""shardsim for Python: what a training step costs on a machine, and which layout of it is best.

    import shardsim
    shardsim.run("llama3-8b", gpu="h100", gpus=64)
    shardsim.plan("llama3-70b", gpu="h100", gpus=128).df()

docs/guide/python.md is the guide. The package starts the program shardsim and names what it prints;
all numbers are the program's. shardsim.torch records PyTorch programs on virtual GPUs.
"""

from shardsim.diffs import Diff
from shardsim.errors import (
    BackendError,
    CheckFailed,
    Deadlock,
    DoesNotFit,
    InternalError,
    Interrupted,
    Problem,
    ProgramMissing,
    ShardsimError,
    UsageError,
)
from shardsim.figures import Band, Figure
from shardsim.metrics import Metrics
from shardsim.plans import Plan
from shardsim.results import Result
from shardsim.searches import plan, sweep
from shardsim.sweeps import Sweep
from shardsim.validations import Validation
from shardsim.verbs import Preset, check, diff, presets, run, validate, version
from shardsim.words import Scenario

__all__ = [
    "BackendError",
    "Band",
    "CheckFailed",
    "Deadlock",
    "Diff",
    "DoesNotFit",
    "Figure",
    "InternalError",
    "Interrupted",
    "Metrics",
    "Plan",
    "Preset",
    "Problem",
    "ProgramMissing",
    "Result",
    "Scenario",
    "ShardsimError",
    "Sweep",
    "UsageError",
    "Validation",
    "check",
    "diff",
    "plan",
    "presets",
    "run",
    "sweep",
    "validate",
    "version",
]
