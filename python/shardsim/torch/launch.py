"""Runs one rank of an unmodified script on a virtual GPU, and writes what it did.

usage: python3 -m shardsim.torch.launch --rank 0 --world 64 --out rank-0.jsonl train.py ARGS...
"""

import argparse
import datetime
import gc
import os
import pathlib
import runpy
import sys
import sysconfig
import traceback

import torch
import torch.distributed

from shardsim.torch import build_native, cuda, distributed, modules, program, steps


def parsed(arguments):
    parser = argparse.ArgumentParser(prog="python3 -m shardsim.torch.launch",
                                     description=__doc__.splitlines()[0])
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--gpus-per-node", type=int, default=8)
    parser.add_argument("--gpu", choices=sorted(cuda.GPUS), default="h100")
    parser.add_argument("--out", required=True, help="the file that is written")
    parser.add_argument("--steps", type=int, default=0,
                        help="end after so many steps of the optimizer (0: when the script ends)")
    parser.add_argument("--limit", type=float, default=600.0,
                        help="seconds to wait for another rank")
    parser.add_argument("--recorded", default="", help="all ranks that are recorded at the same time")
    parser.add_argument("--represent", default="",
                        help="by world rank, the recorded one that stands for it, as a file")
    parser.add_argument("--port", type=int, default=0, help="where recorded ranks meet")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args(arguments)


def set_environment(options):
    """As torchrun does."""
    node = options.gpus_per_node
    os.environ.update(
        RANK=str(options.rank), WORLD_SIZE=str(options.world), LOCAL_RANK=str(options.rank % node),
        LOCAL_WORLD_SIZE=str(min(node, options.world)), GROUP_RANK=str(options.rank // node),
        GROUP_WORLD_SIZE=str(-(-options.world // node)), MASTER_ADDR="localhost",
        MASTER_PORT="29500", TORCHELASTIC_RUN_ID="shardsim", ROLE_RANK=str(options.rank),
        ROLE_WORLD_SIZE=str(options.world))
    # What torch.compile makes of a program is not known: it is recorded as it is without.
    os.environ["TORCHDYNAMO_DISABLE"] = "1"


def meet(native, options):
    """Recorded ranks leave small values for each other in a store."""
    ranks = [int(rank) for rank in options.recorded.split(",") if rank]
    if len(ranks) < 2:
        return
    represent = [int(rank) for rank in pathlib.Path(options.represent).read_text().split()]
    store = torch.distributed.TCPStore(
        "localhost", options.port, is_master=False, wait_for_workers=False, use_libuv=False,
        timeout=datetime.timedelta(seconds=options.limit))
    native.set_recorders(options.rank, represent, store)


def notes_of(native):
    """What the host read of tensors that have no data."""
    sites = native.sites()
    reads = {}
    for kind, _, row, *_ in native.entries():
        if kind == program.READ:
            reads[sites[row]] = reads.get(sites[row], 0) + 1
    return [f"the host read values that are not known {count} times at {site}, and got ones"
            for site, count in sorted(reads.items())]


def run(options):
    native = build_native.load(torch)
    cuda.install(native, options.gpu, options.gpus_per_node)
    groups = distributed.install(native, options.rank, options.world)
    meet(native, options)
    native.set_library_folders([
        str(pathlib.Path(torch.__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent),
        sysconfig.get_path("stdlib")])
    training = steps.Steps(native, options.steps)
    training.install()
    modules.Modules(native).install()
    script = pathlib.Path(options.script)
    sys.path.insert(0, str(script.resolve().parent))
    sys.argv = [options.script, *options.arguments]
    gc.collect()
    gc.disable()  # It would free tensors late, and at other moments each time.
    status = 0
    try:
        runpy.run_path(options.script, run_name="__main__")
    except SystemExit as exit_:
        status = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    native.set_on(False)
    # Of a rank that failed, groups and messages are still of use to whoever records the others.
    out = options.out if status == 0 else options.out + program.PARTIAL
    program.write(out, native, groups, script.name, notes_of(native), training.categories)
    return status


def main():
    options = parsed(sys.argv[1:])
    set_environment(options)
    try:
        status = run(options)
    except build_native.CannotBuild as error:
        print(f"shardsim: {error}", file=sys.stderr)
        status = 70
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # Threads of the script may wait for ranks that do not run.


if __name__ == "__main__":
    main()
