"""Records the ranks of a script that stand for all of its world, and writes a file for each.

usage: python3 -m shardsim.torch.record --world 64 --out folder train.py ARGS...

`shardsim torch` does this, and prices a step.
"""

import argparse
import importlib.util
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from shardsim.torch import facts


def parsed(arguments):
    parser = argparse.ArgumentParser(prog="shardsim torch", description=__doc__.splitlines()[0])
    parser.add_argument("--world", type=int, required=True, help="number of ranks")
    parser.add_argument("--ranks", default="auto",
                        help="ranks to record: auto, all, or a list (0,8,16)")
    parser.add_argument("--checks", type=int, default=2,
                        help="ranks that are recorded to be compared, beside the first and the last")
    parser.add_argument("--steps", type=int, default=3,
                        help="end after so many steps of the optimizer; 0: when the script ends")
    parser.add_argument("--gpu-facts", default="",
                        help="what `shardsim torch --gpu-facts` prints (the command $SHARDSIM, or "
                        "shardsim, is asked for it)")
    parser.add_argument("--system", default="dgx-h100",
                        help="the machine for which it is asked: a preset or a scenario's file")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for a rank to be recorded")
    parser.add_argument("--out", required=True, help="the folder for the records")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args(arguments)


def settle_environment():
    """Starts this program anew if PyTorch, or Python itself, would be loaded with other settings."""
    # Sets have one order in all ranks; each rank computes with one thread.
    settings = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    if any(os.environ.get(name) != value for name, value in settings.items()):
        os.execve(sys.executable,
                  [sys.executable, "-m", "shardsim.torch.record", *sys.argv[1:]],
                  os.environ | settings)


def main():
    settle_environment()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # Who starts this may ignore it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    options = parsed(sys.argv[1:])
    options.out = pathlib.Path(options.out)
    if options.world < 1:
        print("shardsim torch: --world is less than 1", file=sys.stderr)
        return 64
    if not os.path.isfile(options.script):
        print(f"shardsim torch: there is no script {options.script}", file=sys.stderr)
        return 66
    if importlib.util.find_spec("torch") is None:
        print(f"shardsim torch: {sys.executable} has no PyTorch: install a CPU build of it, or set "
              "SHARDSIM_PYTHON to a Python that has one", file=sys.stderr)
        return 69
    try:
        if not options.gpu_facts:
            options.gpu_facts = facts.asked_of_command(options.system)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"shardsim torch: {getattr(error, 'stderr', None) or error}", file=sys.stderr)
        return 69
    from shardsim.torch import recording  # It takes seconds.

    try:
        ranks = recording.record(options)
    except BaseException as error:
        for part in options.out.glob("rank-*.jsonl*"):
            part.unlink()  # A replay would take it for all.
        if not isinstance(error, recording.Failed):
            raise
        print(f"shardsim torch: {error}", file=sys.stderr)
        return 1
    log = options.out / f"rank-{ranks[0]}.log"
    with open(log, encoding="utf-8", errors="replace") as output:
        shutil.copyfileobj(output, sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
