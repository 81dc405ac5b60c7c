"""Experts on eight ranks: tokens are counted on the device, and the host reads the counts."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.nn.functional as F
from torch import nn

EXPERTS, TOP, HIDDEN, FFN, TOKENS = 64, 8, 128, 64, 1024


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(HIDDEN, EXPERTS, bias=False)
        own = EXPERTS // dist.get_world_size()
        self.up = nn.Parameter(torch.zeros(own, HIDDEN, FFN))
        self.down = nn.Parameter(torch.zeros(own, FFN, HIDDEN))

    def forward(self, x):
        world = dist.get_world_size()
        weights, chosen = torch.topk(F.softmax(self.router(x).float(), -1), TOP)
        experts = chosen.view(-1)
        counts = torch.bincount(experts, minlength=EXPERTS)
        received = torch.empty_like(counts)
        dist.all_to_all_single(received, counts)
        sends = counts.view(world, -1).sum(1).tolist()
        receives = received.view(world, -1).sum(1).tolist()
        order = torch.argsort(experts, stable=True)
        rows = x[order // TOP]
        rows = functional.all_to_all_single_autograd(rows, receives, sends, dist.group.WORLD)
        per_expert = rows.shape[0] // self.up.shape[0]
        rows = torch.bmm(F.silu(torch.bmm(rows.view(-1, per_expert, HIDDEN), self.up)), self.down)
        rows = functional.all_to_all_single_autograd(
            rows.view(-1, HIDDEN), sends, receives, dist.group.WORLD)
        return torch.zeros_like(x).index_add(
            0, order // TOP, rows * weights.view(-1)[order, None].to(rows.dtype))


dist.init_process_group("nccl")
device = torch.device("cuda", 0)
model = Experts().to(device, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(TOKENS, HIDDEN, dtype=torch.bfloat16).to(device).requires_grad_(True)
    model(x).float().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
