"""Trains a small Llama in fp32 and prints its losses and parameters: an ordinary script, which knows
nothing of shardsim. usage: trained.py STRATEGY; all train on the same batch, whatever the world is.
"""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

import llama

llama.VOCAB, llama.HIDDEN, llama.FFN, llama.LAYERS, llama.LENGTH = 64, 32, 64, 4, 16
STEPS, BATCH = 5, 4
FP32 = torch.float32


def batches():
    numbers = torch.Generator().manual_seed(7)
    return [torch.randint(0, llama.VOCAB, (BATCH, llama.LENGTH), generator=numbers)
            for _ in range(STEPS)]


def mean_of(loss):
    dist.all_reduce(loss := loss.detach().clone(), dist.ReduceOp.AVG)
    return loss.item()


def train(model, parts, of_rank, clips=True):
    """`of_rank`: this rank's part of a batch."""
    optimizer = torch.optim.SGD(parts, lr=0.1, momentum=0.9)
    losses = []
    for batch in batches():
        tokens = of_rank(batch)
        loss = llama.loss_of(model(tokens), tokens)
        loss.backward()
        if clips:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(mean_of(loss))
    return losses, {name.removeprefix("module."): p for name, p in model.named_parameters()}


def rows_of(batch):
    size = BATCH // dist.get_world_size()
    return batch[dist.get_rank() * size:][:size].cuda()


def ddp():
    model = nn.parallel.DistributedDataParallel(llama.Llama().cuda())
    return train(model, model.parameters(), rows_of)


def fsdp2(*sizes):
    from torch.distributed.fsdp import fully_shard
    from torch.utils.checkpoint import checkpoint

    names = ("replicate", "shard")[-len(sizes or (1,)):]
    mesh = init_device_mesh("cuda", sizes or (dist.get_world_size(),), mesh_dim_names=names)
    model = llama.Llama().cuda()
    for block in model.blocks:
        inner = block.attention.forward
        block.attention.forward = (
            lambda x, inner=inner: checkpoint(inner, x, use_reentrant=False))
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return train(model, model.parameters(), rows_of)


def tensor_parallel():
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, RowwiseParallel, parallelize_module)

    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    model = llama.Llama().cuda()
    for block in model.blocks:
        parallelize_module(block, mesh, {
            "attention.q": ColwiseParallel(), "attention.k": ColwiseParallel(),
            "attention.v": ColwiseParallel(), "attention.out": RowwiseParallel(),
            "ffn.gate": ColwiseParallel(), "ffn.up": ColwiseParallel(),
            "ffn.down": RowwiseParallel()})
    of_mesh = [p for p in model.parameters() if hasattr(p, "device_mesh")]
    others = [p for p in model.parameters() if not hasattr(p, "device_mesh")]
    return train(model, [{"params": of_mesh}, {"params": others}], lambda batch: batch.cuda(),
                 clips=False)


def pipeline(kind, stages):
    """Parts of one model, each with its own layers."""
    from torch.distributed import pipelining

    world, rank = dist.get_world_size(), dist.get_rank()
    total = world * stages
    layers = llama.LAYERS // total
    whole = dict(llama.Llama().named_parameters())
    made, named = [], {}
    for number in range(rank, total, world):
        part = llama.Llama(range(layers), number == 0, number == total - 1)
        for name, parameter in part.named_parameters():
            words = name.split(".")
            if words[0] == "blocks":
                words[1] = str(int(words[1]) + number * layers)
            parameter.data.copy_(whole[".".join(words)])
            named[".".join(words)] = parameter
        made.append(pipelining.PipelineStage(part.cuda(), number, total, torch.device("cuda", 0)))
    schedule = getattr(pipelining.schedules, kind)(
        made[0] if stages == 1 else made, BATCH, loss_fn=llama.loss_of)
    optimizer = torch.optim.SGD(named.values(), lr=0.1, momentum=0.9)
    losses = []
    for batch in batches():
        last, found = rank == world - 1, []
        schedule.step(*([batch.cuda()] if rank == 0 else []),
                      **({"target": batch.cuda(), "losses": found} if last else {}))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(torch.stack(found).mean().item() if last else 0.0)
    return losses, named


STRATEGIES = {
    "ddp": ddp, "fsdp2": fsdp2, "hsdp": lambda: fsdp2(2, dist.get_world_size() // 2),
    "tp": tensor_parallel, "1f1b": lambda: pipeline("Schedule1F1B", 1),
    "gpipe": lambda: pipeline("ScheduleGPipe", 1),
    "interleaved_1f1b": lambda: pipeline("ScheduleInterleaved1F1B", 2),
}


def whole_of(parameter):
    whole = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
    return whole.detach().double().flatten().tolist()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    losses, named = STRATEGIES[sys.argv[1]]()
    mine = (losses, {name: whole_of(parameter) for name, parameter in named.items()})
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    parameters = {name: values for _, part in everyone for name, values in part.items()}
    if dist.get_rank() == 0:
        print(json.dumps({"losses": everyone[-1][0], "parameters": parameters}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
