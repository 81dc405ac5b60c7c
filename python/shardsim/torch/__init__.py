"""PyTorch programs on virtual GPUs: one rank runs without a GPU, and all that it does is recorded.

`shardsim torch --world 64 train.py` runs a script so, unmodified. docs/guide/torch.md is its guide.
"""
