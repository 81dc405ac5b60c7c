"""Trains a Llama by FSDP2, tensor and sequence parallelism, and pipelining (1F1B).

usage: torchrun ... llama_3d.py [--pp 2] [--tp 4] [--layers 32] [--microbatches 8] [--loss-inside]
"""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module)

# Llama 3 8B.
VOCAB, HIDDEN, FFN, HEADS, KEY_HEADS, LENGTH = 128256, 4096, 14336, 32, 8, 8192
HEAD = HIDDEN // HEADS


def rotated(x, angles):
    first, second = x.float().chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).type_as(x)


def loss_of(logits, targets, reduction="mean"):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction=reduction)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.k = nn.Linear(HIDDEN, KEY_HEADS * HEAD, bias=False)
        self.v = nn.Linear(HIDDEN, KEY_HEADS * HEAD, bias=False)
        self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)

    def forward(self, x, angles):
        q, k, v = (layer(x).unflatten(-1, (-1, HEAD)).transpose(1, 2)
                   for layer in (self.q, self.k, self.v))
        q, k = rotated(q, angles), rotated(k, angles)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(HIDDEN, FFN, bias=False)
        self.up = nn.Linear(HIDDEN, FFN, bias=False)
        self.down = nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.attention, self.ffn = Attention(), FeedForward()

    def forward(self, x, angles):
        x = x + self.attention(self.attention_norm(x), angles)
        return x + self.ffn(self.ffn_norm(x))


class Stage(nn.Module):
    """Some of the blocks; the first stage has the embedding, the last the head."""

    def __init__(self, layers, is_first, is_last):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, HIDDEN) if is_first else None
        self.blocks = nn.ModuleList(Block() for _ in layers)
        self.norm = nn.RMSNorm(HIDDEN) if is_last else None
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False) if is_last else None

    def forward(self, x, labels=None):
        steps = torch.arange(0, HEAD, 2, device=x.device) / HEAD
        angles = torch.outer(torch.arange(LENGTH, device=x.device), 500000.0 ** -steps)
        x = x if self.tokens is None else self.tokens(x)
        for block in self.blocks:
            x = block(x, angles)
        if self.head is None:
            return x
        logits = self.head(self.norm(x)).float()
        return logits if labels is None else loss_of(logits, labels, "none").mean(0, keepdim=True)


def cut_by_tensor(stage, mesh):
    """Tensor parallelism; what lies between its regions is cut by tokens."""
    plan = {"tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())}
    if stage.tokens is None:  # The stages before it send tokens that are cut.
        del plan["tokens"]
    if stage.head is None:
        del plan["norm"], plan["head"]
    parallelize_module(stage, mesh, plan)
    for block in stage.blocks:
        parallelize_module(block, mesh, {
            "attention_norm": SequenceParallel(), "ffn_norm": SequenceParallel(),
            "attention": PrepareModuleInput(input_layouts=(Shard(1), None),
                                            desired_input_layouts=(Replicate(), None)),
            "attention.q": ColwiseParallel(), "attention.k": ColwiseParallel(),
            "attention.v": ColwiseParallel(),
            "attention.out": RowwiseParallel(output_layouts=Shard(1)),
            "ffn": PrepareModuleInput(input_layouts=(Shard(1),),
                                      desired_input_layouts=(Replicate(),)),
            "ffn.gate": ColwiseParallel(), "ffn.up": ColwiseParallel(),
            "ffn.down": RowwiseParallel(output_layouts=Shard(1))})


def shard(stage, mesh):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in stage.blocks:  # A pipeline gathers once a step, not for each microbatch.
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
    fully_shard(stage, mesh=mesh, mp_policy=policy, reshard_after_forward=False)


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("pp", 2), ("tp", 4), ("layers", 32), ("microbatches", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--loss-inside", action="store_true",
                        help="the last stage gives its loss to the schedule, not its logits")
    args = parser.parse_args()
    dist.init_process_group("nccl")
    device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    mesh = init_device_mesh("cuda", (args.pp, dist.get_world_size() // args.pp // args.tp, args.tp),
                            mesh_dim_names=("pp", "dp", "tp"))
    number = mesh["pp"].get_local_rank()
    layers = range(number * args.layers // args.pp, (number + 1) * args.layers // args.pp)
    with torch.device("meta"):
        part = Stage(layers, number == 0, number == args.pp - 1)
    cut_by_tensor(part, mesh["tp"])
    shard(part, mesh["dp"])
    part.to_empty(device=device)
    for parameter in part.parameters():
        nn.init.normal_(parameter, std=0.02)
    stage = PipelineStage(part, number, args.pp, device, group=mesh.get_group("pp"))
    schedule = Schedule1F1B(stage, args.microbatches,
                            loss_fn=(lambda loss, _: loss.sum()) if args.loss_inside else loss_of)
    optimizer = torch.optim.AdamW(part.parameters(), lr=3e-4, foreach=True)
    for _ in range(10):
        tokens = torch.randint(0, VOCAB, (args.microbatches, LENGTH + 1), device=device)
        inputs = [tokens[:, :-1]] if number == 0 else []
        targets = {"target": tokens[:, 1:]} if number == args.pp - 1 else {}
        if targets and args.loss_inside:
            targets["labels"] = tokens[:, 1:]
        schedule.step(*inputs, **targets)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
