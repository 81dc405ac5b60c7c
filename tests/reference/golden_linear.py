#!/usr/bin/env python3
"""Makes golden_linear.safetensors: PyTorch's results for layers of linear attention (linear_layers.py).

usage: golden_linear.py [FILE]

Needs PyTorch, and no shardsim: inputs and parameters are random, and stand in the file, too.
tests/strategies/linear_attention_golden_test.cpp holds the layers' kernels against it.
"""

import pathlib
import sys

import golden

GOLDEN = golden.HERE / "golden_linear.safetensors"


def main():
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    import torch  # pylint: disable=import-outside-toplevel
    import linear_layers  # pylint: disable=import-outside-toplevel
    metadata = {"made_by": "tests/reference/golden_linear.py", "torch": torch.__version__}
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) == 2 else GOLDEN
    target.write_bytes(golden.to_safetensors(linear_layers.computed(), metadata))


if __name__ == "__main__":
    main()
