"""What scripts ask of the GPU that a rank has, and a mask whose values nobody knows, if "mask" is given."""

import os
import sys

import torch

device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
tensor = torch.ones(4, device=device)
print(tensor.to(device) is tensor, tensor.cuda(device) is tensor,
      tensor.to(device, torch.float32) is tensor, tensor.to(device, torch.float16).dtype)
# Weights that are tied are met twice.
tied = torch.nn.Linear(4, 4).to(device)
torch.nn.Sequential(tied, tied).to(device)
with torch.cuda.nvtx.range("outer"):
    print(torch.cuda.nvtx.range_push("inner"), torch.cuda.nvtx.range_pop())
print(torch.version.cuda.split(".")[0])
print(tensor)
if "mask" in sys.argv:
    values = tied(tensor)
    print(values[values > 0.5])
