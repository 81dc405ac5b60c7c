"""Runs one rank of an unmodified script on a virtual GPU, and writes what it did.

usage: python3 -m shardsim.torch.launch --rank 0 --world 64 --gpu-facts JSON --out rank-0.jsonl
       train.py ARGS...
"""

import argparse
import ctypes
import datetime
import gc
import os
import pathlib
import runpy
import signal
import sys
import sysconfig
import traceback

import torch
import torch.distributed

from shardsim.torch import build_native, cuda, distributed, facts, modules, program, steps


def parser_of_rank(module, summary):
    """The options of each process that runs a rank of a script."""
    parser = argparse.ArgumentParser(prog=f"python3 -m {module}", description=summary)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--gpu-facts", type=facts.parsed, required=True,
                        help="what `shardsim torch --gpu-facts` prints")
    parser.add_argument("--steps", type=int, default=0,
                        help="end after so many steps of the optimizer (0: when the script ends)")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser


def parsed(arguments):
    parser = parser_of_rank("shardsim.torch.launch", __doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="the file that is written")
    parser.add_argument("--limit", type=float, default=600.0,
                        help="seconds to wait for another rank")
    parser.add_argument("--recorded", default="", help="all ranks that are recorded at the same time")
    parser.add_argument("--represent", default="",
                        help="by world rank, the recorded one that stands for it, as a file")
    parser.add_argument("--port", type=int, default=0, help="where recorded ranks meet")
    parser.add_argument("--recorder", type=int, default=0,
                        help="the process with which this one ends, however that one ends")
    return parser.parse_args(arguments)


def set_environment(options):
    """As torchrun does."""
    node = options.gpu_facts["gpus_per_node"]
    os.environ.update(
        RANK=str(options.rank), WORLD_SIZE=str(options.world), LOCAL_RANK=str(options.rank % node),
        LOCAL_WORLD_SIZE=str(min(node, options.world)), GROUP_RANK=str(options.rank // node),
        GROUP_WORLD_SIZE=str(-(-options.world // node)), MASTER_ADDR="localhost",
        MASTER_PORT="29500", TORCHELASTIC_RUN_ID="shardsim", ROLE_RANK=str(options.rank),
        ROLE_WORLD_SIZE=str(options.world))
    # What torch.compile makes of a program is not known: it is recorded as it is without.
    os.environ["TORCHDYNAMO_DISABLE"] = "1"


def end_with(parent):
    """The kernel kills this process when its parent ends; one that has ended sends nothing more."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


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


def library_folders():
    """The folders whose code is not the script's."""
    return [str(pathlib.Path(torch.__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent),
            sysconfig.get_path("stdlib")]


def prepare(native, options):
    """Sets all that the script finds. Returns the training's steps."""
    native.set_library_folders(library_folders())
    training = steps.Steps(native, options.steps)
    training.install()
    sys.path.insert(0, str(pathlib.Path(options.script).resolve().parent))
    sys.argv = [options.script, *options.arguments]
    return training


def status_of(script, failed=lambda error: None):
    """Runs it to its end. `failed` gets the exception that ended it, if one did."""
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except BaseException as error:
        traceback.print_exc()
        failed(error)
        return 1
    return 0


def run(options):
    native = build_native.load(torch)
    cuda.install(native, options.gpu_facts)
    groups = distributed.install(native, options.rank, options.world)
    meet(native, options)
    training = prepare(native, options)
    modules.Modules(native).install()
    gc.collect()
    gc.disable()  # It would free tensors late, and at other moments each time.
    status = status_of(options.script)
    native.set_on(False)
    # Of a rank that failed, groups and messages are still of use to whoever records the others.
    out = options.out if status == 0 else options.out + program.PARTIAL
    program.write(out, native, groups, pathlib.Path(options.script).name, notes_of(native), training.categories)
    return status


def main(arguments=None):
    options = parsed(sys.argv[1:] if arguments is None else arguments)
    if options.recorder:
        end_with(options.recorder)
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
