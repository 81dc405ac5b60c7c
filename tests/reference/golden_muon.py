#!/usr/bin/env python3
"""Makes golden_muon.safetensors: five steps of Muon in PyTorch (muon.py), as golden.py makes its file.

usage: golden_muon.py SHARDSIM [FILE]
"""

import pathlib
import sys

from dumped_run import DumpedRun
import golden

GOLDEN = golden.HERE / "golden_muon.safetensors"
# By name: the model, and the fields of `training`. Lion is not with gpt2, where it would move the biases
# of keys by the sign of rounding.
CASES = {
    "gpt2": ("gpt2", {"muon_nesterov": "true", "muon_momentum": "0.95"}),
    "gpt2 simple": ("gpt2", {"muon_coefficient_type": "simple", "muon_nesterov": "false",
                             "muon_scale_mode": "shape_scaling", "max_grad_norm": "0.2"}),
    "llama": ("llama", {"muon_scale_mode": "unit_rms_norm", "muon_momentum": "0.8",
                        "muon_scalar_optimizer": "lion", "beta2": "0.99"}),
    "llama long": ("llama", {"muon_num_ns_steps": "7", "muon_extra_scale_factor": "0.2"}),
    "experts": ("experts", {"muon_coefficient_type": "simple", "muon_extra_scale_factor": "0.2"}),
}
VECTORS = ("losses", "gradient_norms", "parameters")


def dumped(shardsim, case):
    model, fields = CASES[case]
    overrides = ["training.optimizer=muon"]
    overrides += [f"training.{field}={value}" for field, value in fields.items()]
    return DumpedRun(shardsim, golden.HERE / f"{model}.json", overrides)


def computed(shardsim):
    """PyTorch's results for all cases: vectors by name."""
    import models  # pylint: disable=import-outside-toplevel
    vectors = {}
    for case in CASES:
        losses, norms, weights = models.train(dumped(shardsim, case))
        values = [value for name in sorted(weights) for value in weights[name].flatten().tolist()]
        for what, vector in zip(VECTORS, (losses, norms, values)):
            vectors[f"{case}/{what}"] = vector
    return vectors


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    import torch  # pylint: disable=import-outside-toplevel
    metadata = {"made_by": "tests/reference/golden_muon.py", "torch": torch.__version__}
    target = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else GOLDEN
    target.write_bytes(golden.to_safetensors(computed(sys.argv[1]), metadata))


if __name__ == "__main__":
    main()
