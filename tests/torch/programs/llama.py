"""Trains a small Llama by a strategy of PyTorch's own: an ordinary script, which knows nothing of
shardsim. usage: llama.py STRATEGY [SCHEDULE]
"""

import json
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

# As in the file LLAMA_SIZE, a scenario's model with "batch", or a small one.
SIZE = {"vocab_size": 512, "hidden_size": 256, "ffn_hidden_size": 688, "num_attention_heads": 4,
        "num_layers": 4, "seq_len": 128, "batch": 4}
if "LLAMA_SIZE" in os.environ:
    with open(os.environ["LLAMA_SIZE"], encoding="utf-8") as file:
        SIZE = json.load(file)
VOCAB, HIDDEN, FFN, HEADS, LAYERS, LENGTH, BATCH = (SIZE[key] for key in (
    "vocab_size", "hidden_size", "ffn_hidden_size", "num_attention_heads", "num_layers", "seq_len",
    "batch"))
STEPS = 3
BF16 = torch.bfloat16


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        for name in ("q", "k", "v", "out"):
            setattr(self, name, nn.Linear(HIDDEN, HIDDEN, bias=False))

    def forward(self, x):
        def heads(y):
            return y.view(*y.shape[:2], -1, HIDDEN // HEADS).transpose(1, 2)

        y = F.scaled_dot_product_attention(heads(self.q(x)), heads(self.k(x)), heads(self.v(x)),
                                           is_causal=True)
        return self.out(y.transpose(1, 2).reshape(*x.shape[:2], -1))


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
        self.norm, self.ffn_norm = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.attention, self.ffn = Attention(), FeedForward()

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.ffn(self.ffn_norm(x))


class Llama(nn.Module):
    def __init__(self, layers=range(LAYERS), first=True, last=True):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, HIDDEN) if first else None
        self.blocks = nn.ModuleList(Block() for _ in layers)
        self.norm = nn.RMSNorm(HIDDEN) if last else None
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False) if last else None

    def forward(self, x):
        if self.tokens is not None:
            x = self.tokens(x)
        for block in self.blocks:
            x = block(x)
        return x if self.head is None else self.head(self.norm(x))


def made_on(device, *parts):
    with device:  # A large one would not fit the host.
        return Llama(*parts)


def loss_of(logits, tokens):
    return F.cross_entropy(logits.float().flatten(0, 1), tokens.flatten())


def tokens_on(device):
    return torch.randint(0, VOCAB, (BATCH, LENGTH)).to(device)


def train(model, parameters, forward, clips=True):
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, fused=True)
    for _ in range(STEPS):
        forward().backward()
        if clips:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def train_whole(model, device):
    train(model, model.parameters(), lambda: loss_of(model(tokens := tokens_on(device)), tokens))


def ddp(device):
    model = nn.parallel.DistributedDataParallel(made_on(device).to(BF16), device_ids=[device.index])
    train_whole(model, device)


def shard(model, mesh, reshard=True, units=False):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=BF16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    if units:
        fully_shard(model.tokens, mesh=mesh, mp_policy=policy)
        fully_shard([model.norm, model.head], mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)


def fsdp2(device, **options):
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    train_whole(shard(made_on(device), mesh, **options), device)


def hsdp(device):
    mesh = init_device_mesh("cuda", (2, dist.get_world_size() // 2),
                            mesh_dim_names=("replicate", "shard"))
    train_whole(shard(made_on(device), mesh), device)


def tensor_parallel(device, sequence=False):
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module)
    from torch.distributed.tensor import Replicate, Shard

    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    model = made_on(device).to(BF16)
    out = RowwiseParallel(output_layouts=Shard(1)) if sequence else RowwiseParallel()
    for block in model.blocks:
        plan = {f"attention.{name}": ColwiseParallel() for name in "qkv"}
        plan |= {"ffn.gate": ColwiseParallel(), "ffn.up": ColwiseParallel(),
                 "attention.out": out, "ffn.down": out}
        if sequence:
            gathered = PrepareModuleInput(input_layouts=(Shard(1),),
                                          desired_input_layouts=(Replicate(),))
            plan |= {"norm": SequenceParallel(), "ffn_norm": SequenceParallel(),
                     "attention": gathered, "ffn": gathered}
        parallelize_module(block, mesh, plan)
    if sequence:
        parallelize_module(model, mesh, {
            "tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})
    # An optimizer takes parameters of one mesh, or none.
    of_mesh = [p for p in model.parameters() if hasattr(p, "device_mesh")]
    others = [p for p in model.parameters() if not hasattr(p, "device_mesh")]
    groups = [{"params": group} for group in (of_mesh, others) if group]
    train(model, groups, lambda: loss_of(model(tokens := tokens_on(device)), tokens), clips=False)


def pipeline(device, name):
    from torch.distributed import pipelining

    kind, stages = {
        "gpipe": ("ScheduleGPipe", 1), "1f1b": ("Schedule1F1B", 1),
        "interleaved_1f1b": ("ScheduleInterleaved1F1B", 2), "looped_bfs": ("ScheduleLoopedBFS", 2),
        "zero_bubble": ("ScheduleInterleavedZeroBubble", 1),
        "interleaved_zero_bubble": ("ScheduleInterleavedZeroBubble", 2),
        "zbv": ("ScheduleZBVZeroBubble", 2)}[name]
    world, rank = dist.get_world_size(), dist.get_rank()
    total = world * stages
    numbers = range(rank, total, world)
    shapes, places = {}, {}
    if name == "zbv":  # PyTorch 2.6 asks the wrong neighbours for shapes, so they are given.
        numbers = (rank, total - 1 - rank)
        rows = torch.empty(BATCH // 4, LENGTH, HIDDEN, dtype=BF16, device="meta")
        ids = torch.empty(BATCH // 4, LENGTH, dtype=torch.long, device="meta")
        logits = torch.empty(BATCH // 4, LENGTH, VOCAB, dtype=BF16, device="meta")
        shapes = {n: {"input_args": ids if n == 0 else rows,
                      "output_args": logits if n == total - 1 else rows} for n in numbers}
        places = {"stage_index_to_group_rank": {n: min(n, total - 1 - n) for n in range(total)}}
    layers = range(max(LAYERS // total, 1))
    parts = [made_on(device, layers, n == 0, n == total - 1).to(BF16) for n in numbers]
    made = [pipelining.PipelineStage(part, n, total, device, **shapes.get(n, {}))
            for part, n in zip(parts, numbers)]
    one = kind in ("ScheduleGPipe", "Schedule1F1B")  # They take one stage, the others a list.
    schedule = getattr(pipelining.schedules, kind)(
        made[0] if one else made, 4, loss_fn=loss_of, **places)
    if not one and rank == 0 and "SCHEDULE_CSV" in os.environ:
        schedule._dump_csv(os.environ["SCHEDULE_CSV"])
    optimizer = torch.optim.AdamW([p for part in parts for p in part.parameters()], lr=1e-3)
    for _ in range(STEPS):
        tokens = tokens_on(device)
        last = {"target": tokens, "losses": []} if total - 1 in numbers else {}
        schedule.step(*([tokens] if 0 in numbers else []), **last)
        optimizer.step()
        optimizer.zero_grad()


STRATEGIES = {
    "ddp": ddp, "fsdp2": fsdp2, "fsdp2_no_reshard": lambda device: fsdp2(device, reshard=False),
    "fsdp2_units": lambda device: fsdp2(device, units=True),
    "hsdp": hsdp, "tp": tensor_parallel, "tp_sp": lambda device: tensor_parallel(device, True),
}


def main():
    torch.manual_seed(0)
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    if sys.argv[1] == "pp":
        pipeline(device, sys.argv[2])
    else:
        STRATEGIES[sys.argv[1]](device)
    if dist.get_rank() == 0:
        print(f"peak {torch.cuda.max_memory_allocated()} bytes")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
