"""torch.distributed for a recorded rank: groups are of the backend "shardsim", whatever is asked."""

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

WORLD = "world"


class Groups:
    """All groups that the world forms, also those of other ranks."""

    def __init__(self, rank, world):
        self.rank = rank
        self.world = world
        self.members = {}  # World ranks by name; without the world.

    def add(self, name, members):
        if name != WORLD:
            self.members[name] = list(members)


def name_of(group_id):
    return WORLD if group_id in ("", "0", "default_pg") else str(group_id)


def install(native, rank, world):
    """Returns the groups."""
    groups = Groups(rank, world)

    def create(options, _):
        members = list(options.global_ranks_in_group) or list(range(options.group_size))
        return native.make_group(name_of(options.group_id), options.group_rank, members)

    dist.Backend.register_backend("shardsim", create, extended_api=True, devices=["cpu", "cuda"])
    # A store of the world would wait for ranks that do not run.
    from torch.testing._internal.distributed.fake_pg import FakeStore

    begin = distributed_c10d.init_process_group

    def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1,
                           store=None, group_name="", pg_options=None, device_id=None):
        return begin("shardsim", rank=groups.rank, world_size=groups.world, store=FakeStore())

    for module in (dist, distributed_c10d, torch.distributed.device_mesh):
        module.init_process_group = init_process_group

    helper = distributed_c10d._new_process_group_helper

    def new_process_group(group_size, group_rank, global_ranks_in_group, backend, store, group_name,
                          *others, **named):
        if global_ranks_in_group:
            groups.add(name_of(group_name), global_ranks_in_group)
        return helper(group_size, group_rank, global_ranks_in_group, "shardsim", store, group_name,
                      *others, **named)

    distributed_c10d._new_process_group_helper = new_process_group
    # As NCCL: objects travel through the device.
    distributed_c10d._get_object_coll_device = lambda group=None: "cuda"
    distributed_c10d._get_pg_default_device = lambda group=None: torch.device("cuda")
    dist.is_nccl_available = lambda: True
    distributed_c10d.is_nccl_available = lambda: True
    if not hasattr(distributed_c10d, "ProcessGroupNCCL"):
        distributed_c10d.ProcessGroupNCCL = type("ProcessGroupNCCL", (), {})  # No group is one.
    return groups
