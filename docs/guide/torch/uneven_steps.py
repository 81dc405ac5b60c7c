"""Data parallel training in which ranks have different numbers of batches. It hangs."""

import torch
import torch.distributed as dist
from torch import nn


def main():
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(16, 16).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    samples = torch.randn(100, 16)[rank::world]  # 13 for the first four of 8 ranks, 12 for the rest.
    for sample in samples:
        loss = model(sample.cuda()).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
