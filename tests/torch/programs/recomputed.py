"""Trains the small Llama on one GPU. Its blocks are computed again in backward, or are compiled.
usage: recomputed.py reentrant|other|compiled
"""

import sys

import torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint

import llama


class Recomputed(llama.Llama):
    def forward(self, x):
        x = self.tokens(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=sys.argv[1] == "reentrant")
        return self.head(self.norm(x))


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", 0)
    compiled = sys.argv[1] == "compiled"
    model = (llama.Llama if compiled else Recomputed)().to(device, llama.BF16)
    llama.train_whole(torch.compile(model, fullgraph=True) if compiled else model, device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
