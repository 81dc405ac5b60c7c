"""Says what it is told of its GPU, and its words, in one line."""

import sys

import torch

properties = torch.cuda.get_device_properties(0)
print([torch.cuda.get_device_name(), torch.cuda.get_device_capability(), properties.total_memory,
       properties.multi_processor_count, torch.cuda.device_count(), *sys.argv[1:]])
torch.ones(4, device="cuda").add_(1)
