#!/usr/bin/env python3
"""Makes golden_transformers.safetensors: losses and gradients in PyTorch of transformers' routers and
attention (transformers_models.py), of layers with heads of their own (transformers_heads.py), of experts on
latents and of two mixers in a layer (transformers_hybrids.py), and of Megatron-Core's multi-token
prediction (megatron_prediction.py), as golden.py makes its file.

usage: golden_transformers.py SHARDSIM [FILE]

A case has the losses of four steps, and all gradients of the last, in the order of their names.
"""

import pathlib
import sys

from dumped_run import DumpedRun
import golden

GOLDEN = golden.HERE / "golden_transformers.safetensors"
CASES = ("deepseek_v3", "ernie4_5_moe", "falcon_h1", "gemma4", "gpt_oss", "llama4", "mimo_v2",
         "multi_token", "nemotron_h", "step3p5")


def dumped(shardsim, case):
    return DumpedRun(shardsim, golden.HERE / f"{case}.json")


def computed(shardsim):
    """PyTorch's results for all cases: vectors by name."""
    import transformers_cases  # pylint: disable=import-outside-toplevel
    vectors = {}
    for case in CASES:
        run = dumped(shardsim, case)
        losses, gradients = transformers_cases.losses_and_gradients(case, run)
        vectors[f"{case}/losses"] = losses
        vectors[f"{case}/gradients"] = [
            value for name in sorted(gradients) for value in gradients[name].flatten().tolist()]
    return vectors


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    import torch  # pylint: disable=import-outside-toplevel
    metadata = {"made_by": "tests/reference/golden_transformers.py", "torch": torch.__version__}
    target = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else GOLDEN
    target.write_bytes(golden.to_safetensors(computed(sys.argv[1]), metadata))


if __name__ == "__main__":
    main()
