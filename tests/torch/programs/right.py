"""Correct programs that look like mistakes. Each checks the values that it gets."""

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    world = dist.get_world_size()
    total = float(world)

    # A later work of a group ends after the earlier ones.
    a, b = torch.ones(4, device="cuda"), torch.ones(4, device="cuda")
    dist.all_reduce(a, async_op=True)
    dist.all_reduce(b, async_op=True).wait()
    assert a.tolist() == [total] * 4, a
    dist.all_reduce(a, async_op=True)
    dist.barrier()
    assert a.tolist() == [total * world] * 4, a

    # Parts of one buffer, and one buffer twice in one group.
    flat = torch.ones(8, device="cuda")
    works = [dist.all_reduce(part, async_op=True) for part in flat.chunk(4)]
    works += [dist.all_reduce(flat, async_op=True)]
    works[-1].wait()
    assert flat.tolist() == [total * world] * 8, flat

    # The host waits for the device.
    dist.all_reduce(b, async_op=True)
    torch.cuda.synchronize()
    assert b.tolist() == [total * world] * 4, b

    # A tensor that is made larger keeps its values, and truths are added up as truths.
    c = torch.arange(3.0, device="cuda")
    c.resize_(6)
    assert c[:3].tolist() == [0.0, 1.0, 2.0], c
    truth = torch.tensor([True, False], device="cuda")
    dist.all_reduce(truth)
    assert truth.tolist() == [True, False] and truth.view(torch.uint8).tolist() == [1, 0], truth

    # Changes of a view are changes of the whole.
    d = torch.arange(6, device="cuda")
    d[2:4] = 7
    d.view(2, 3)[0].add_(1)
    assert d.tolist() == [1, 2, 8, 7, 4, 5], d
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
