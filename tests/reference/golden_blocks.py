#!/usr/bin/env python3
"""Makes golden_blocks.safetensors: losses and gradients of transformers' blocks in PyTorch
(block_models.py), as golden.py makes its file.

usage: golden_blocks.py SHARDSIM [FILE]

A case has the losses of four steps, and all gradients of the last, in the order of their names.
"""

import pathlib
import sys

from dumped_run import DumpedRun
import golden

GOLDEN = golden.HERE / "golden_blocks.safetensors"
CASES = ("gemma2", "clamped_experts")


def dumped(shardsim, case, overrides=()):
    return DumpedRun(shardsim, golden.HERE / f"{case}.json", overrides)


def computed(shardsim):
    """PyTorch's results for all cases: vectors by name."""
    import block_models  # pylint: disable=import-outside-toplevel
    vectors = {}
    for case in CASES:
        losses, gradients = block_models.losses_and_gradients(case, dumped(shardsim, case))
        vectors[f"{case}/losses"] = losses
        vectors[f"{case}/gradients"] = [
            value for name in sorted(gradients) for value in gradients[name].flatten().tolist()]
    return vectors


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    import torch  # pylint: disable=import-outside-toplevel
    metadata = {"made_by": "tests/reference/golden_blocks.py", "torch": torch.__version__}
    target = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else GOLDEN
    target.write_bytes(golden.to_safetensors(computed(sys.argv[1]), metadata))


if __name__ == "__main__":
    main()
