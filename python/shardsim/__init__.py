"""shardsim for Python: shardsim.torch records PyTorch programs on virtual GPUs."""
