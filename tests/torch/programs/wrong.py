"""Programs with one mistake each, which real clusters answer with a hang or with wrong numbers.
usage: wrong.py MISTAKE. The line of each mistake ends with the words "# here".
"""

import os
import sys
import time

import torch
import torch.distributed as dist


def skips_a_collective(rank, x):
    dist.all_reduce(x)
    if rank != 2:
        dist.all_reduce(x)  # here


def order_of_two_groups(rank, x):
    pair, everyone = dist.new_group([0, 1]), dist.new_group(range(dist.get_world_size()))
    if rank == 0:
        dist.all_reduce(x, group=everyone)
        dist.all_reduce(x, group=pair)
    else:
        if rank == 1:
            dist.all_reduce(x, group=pair)  # here
        dist.all_reduce(x, group=everyone)


def sizes_differ(rank, x):
    dist.all_reduce(x if rank != 3 else x[:4])  # here


def types_differ(rank, x):
    y = x.double() if rank == 1 else x
    dist.all_reduce(y)  # here


def no_wait(rank, x):
    work = dist.all_reduce(x, async_op=True)
    y = x + 1  # here
    work.wait()
    return y


def changed_too_early(rank, x):
    work = dist.all_gather_into_tensor(torch.empty(32, device="cuda"), x, async_op=True)
    x.zero_()  # here
    work.wait()


def waits_on_another_stream(rank, x):
    side = torch.cuda.Stream()
    work = dist.all_reduce(x, async_op=True)
    with torch.cuda.stream(side):
        work.wait()
    return x + 1  # here


def send_without_receive(rank, x):
    if rank == 0:
        dist.send(x, 3)  # here
    dist.barrier()


def raises(rank, x):
    if rank == 1:
        raise ValueError("a bad batch")  # here
    dist.all_reduce(x)


def exits(rank, x):
    if rank == 3:
        sys.exit(0)
    dist.all_reduce(x)  # here


def dies(rank, x):
    if rank == 3:
        os._exit(9)
    dist.all_reduce(x)


def loops(rank, x):
    while rank == 2:
        time.sleep(0.1)  # here
    dist.all_reduce(x)


def other_members(rank, x):
    dist.new_group([0, 1] if rank != 1 else [0, 1, 2])  # here


def output_does_not_fit(rank, x):
    output = torch.empty(32 if rank != 1 else 24, device="cuda")
    dist.all_gather_into_tensor(output, x)  # here


def not_contiguous(rank, x):
    y = x.view(2, 4)
    dist.all_reduce(y if rank != 2 else y.t())  # here


def splits_do_not_add_up(rank, x):
    dist.all_to_all_single(torch.empty_like(x), x, [2] * 4, [2, 2, 2, 2 if rank != 3 else 1])  # here


MISTAKES = {name: mistake for name, mistake in list(globals().items())
            if callable(mistake) and getattr(mistake, "__module__", None) == __name__}


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    x = torch.arange(8.0, device="cuda")
    MISTAKES[sys.argv[1]](rank, x)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
