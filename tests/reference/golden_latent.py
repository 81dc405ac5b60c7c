#!/usr/bin/env python3
"""Makes golden_latent.safetensors: losses and gradients of transformers' latent attention in PyTorch
(latent_model.py), as golden.py makes its file.

usage: golden_latent.py SHARDSIM [FILE]

A case has the losses of three steps, and all gradients of the last, in the order of their names.
"""

import pathlib
import sys

from dumped_run import DumpedRun
import golden

GOLDEN = golden.HERE / "golden_latent.safetensors"
CASES = {"latent": (), "latent_keys": ("model.q_lora_rank=0", "model.attention_scale=0")}


def dumped(shardsim, case, *changes):
    return DumpedRun(shardsim, golden.HERE / "latent.json", (*CASES[case], *changes))


def computed(shardsim):
    """PyTorch's results for all cases: vectors by name."""
    import latent_model  # pylint: disable=import-outside-toplevel
    vectors = {}
    for case in CASES:
        losses, gradients = latent_model.losses_and_gradients(dumped(shardsim, case))
        vectors[f"{case}/losses"] = losses
        vectors[f"{case}/gradients"] = [
            value for name in sorted(gradients) for value in gradients[name].flatten().tolist()]
    return vectors


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    import torch  # pylint: disable=import-outside-toplevel
    metadata = {"made_by": "tests/reference/golden_latent.py", "torch": torch.__version__}
    target = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else GOLDEN
    target.write_bytes(golden.to_safetensors(computed(sys.argv[1]), metadata))


if __name__ == "__main__":
    main()
