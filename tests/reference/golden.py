#!/usr/bin/env python3
"""Makes golden.safetensors: PyTorch's results for the models, weights and tokens of this folder.

usage: golden.py SHARDSIM [FILE]

Needs PyTorch; shardsim gives only the first weights and the tokens of each step. The file has one case
for each model, optimizer and limit of the norm. A case has the losses and the gradients' norms of five
steps, and then all parameters after these steps, in the order of their names.
"""

import json
import pathlib
import struct
import sys

from dumped_run import DumpedRun

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE / "golden.safetensors"
MODELS = ("gpt2", "llama", "qwen3", "experts")
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "rmsprop")
# Without clipping, and with a limit below every norm that occurs: golden_test.py checks that it acts.
LIMITS = {"free": 0, "clipped": 0.2}
CASES = [(model, optimizer, limit) for model in MODELS for optimizer in OPTIMIZERS
         for limit in LIMITS]


def dumped(shardsim, model, optimizer, limit):
    return DumpedRun(shardsim, HERE / f"{model}.json",
                     (f"training.optimizer={optimizer}", f"training.max_grad_norm={LIMITS[limit]}"))


def entry(case, what):
    return "/".join((*case, what))


def to_safetensors(vectors, metadata):
    """A file of vectors of F64."""
    header, data = {"__metadata__": metadata}, b""
    for name, values in vectors.items():
        end = len(data) + 8 * len(values)
        header[name] = {"dtype": "F64", "shape": [len(values)], "data_offsets": [len(data), end]}
        data += struct.pack(f"<{len(values)}d", *values)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def computed(shardsim):
    """PyTorch's results for all cases: vectors by name."""
    import models  # pylint: disable=import-outside-toplevel
    vectors = {}
    for case in CASES:
        losses, norms, weights = models.train(dumped(shardsim, *case))
        vectors[entry(case, "losses")] = losses
        vectors[entry(case, "gradient_norms")] = norms
        vectors[entry(case, "parameters")] = [
            value for name in sorted(weights) for value in weights[name].flatten().tolist()]
    return vectors


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    import torch  # pylint: disable=import-outside-toplevel
    metadata = {"made_by": "tests/reference/golden.py", "torch": torch.__version__}
    target = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else GOLDEN
    target.write_bytes(to_safetensors(computed(sys.argv[1]), metadata))


if __name__ == "__main__":
    main()
