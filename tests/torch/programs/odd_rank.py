"""Rank 5 alone runs its model twice."""

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
device = torch.device("cuda", 0)
model = torch.nn.Linear(64, 64).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.ones(4, 64).to(device)).sum().backward()
    if dist.get_rank() == 5:
        model(torch.ones(4, 64).to(device))
    dist.all_reduce(model.weight.grad)
    optimizer.step()
    optimizer.zero_grad()
