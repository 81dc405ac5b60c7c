"""Records the ranks of a script that stand for all of its world, and writes a file for each.

usage: python3 -m shardsim.torch.record --world 64 --out folder train.py ARGS...

`shardsim torch` does this, and prices a step.
"""

import argparse
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from shardsim.torch import classes, facts
from shardsim.torch.program import PARTIAL

MOST_TOGETHER = 64
TAIL = 25  # Lines of a rank's output that are shown where it fails.


class Failed(Exception):
    """A rank could not be recorded; the text says why."""


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


class Recording:
    """One rank in a process of its own. Its output is kept beside its record."""

    def __init__(self, options, rank, together=(), represent=None, port=0):
        self.rank = rank
        self.path = options.out / f"rank-{rank}.jsonl"
        self.log = options.out / f"rank-{rank}.log"
        command = [sys.executable, "-m", "shardsim.torch.launch", "--rank", str(rank),
                   "--world", str(options.world), "--gpu-facts", options.gpu_facts,
                   "--steps", str(options.steps), "--limit", str(options.limit / 2),
                   "--recorder", str(os.getpid()), "--out", str(self.path)]
        if len(together) > 1:
            command += ["--recorded", ",".join(map(str, together)), "--represent", str(represent),
                        "--port", str(port)]
        environment = os.environ | {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [*command, "--", options.script, *options.arguments], stdout=log,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment)
        self.end = time.monotonic() + options.limit

    def has_ended(self):
        """Raises Failed."""
        status = self.process.poll()
        if status is None and time.monotonic() > self.end:
            raise Failed(f"rank {self.rank} did not end in time (--limit); its last lines:\n"
                         + self.tail())
        if status:
            raise Failed(f"rank {self.rank} ended with {status}; its last lines:\n" + self.tail())
        return status is not None

    def tail(self):
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join("  " + line for line in lines[-TAIL:])


def meeting_place():
    """A store for the values that recorded ranks leave for each other. It outlives all of them."""
    from torch.distributed import TCPStore  # It takes seconds, and one rank needs none.

    return TCPStore("localhost", 0, is_master=True, wait_for_workers=False, use_libuv=False)


def wait_for(recordings):
    """Until all have ended. Raises Failed for the first that fails; then the others end, too."""
    running = list(recordings)
    try:
        while running:
            running = [recording for recording in running if not recording.has_ended()]
            time.sleep(0.02)
    finally:
        for recording in running:
            recording.process.kill()
            recording.process.wait()


def record_together(options, ranks, stands):
    """Ranks that leave small values for each other."""
    if len(ranks) > MOST_TOGETHER:
        raise Failed(f"{len(ranks)} ranks would run at the same time, one process each, and at most "
                     f"{MOST_TOGETHER} may: name fewer (--ranks)")
    represent = options.out / "represent.txt"
    represent.write_text(" ".join(map(str, stands)), encoding="utf-8")
    store = meeting_place()
    running = []
    try:
        for rank in ranks:
            running.append(Recording(options, rank, ranks, represent, store.port))
    except OSError as error:
        for recording in running:
            recording.process.kill()
        raise Failed(f"a process for rank {ranks[len(running)]} does not start: {error}") from None
    wait_for(running)
    represent.unlink()


def record_auto(options):
    """Rank 0 first: it knows all groups, and tells whether messages are sent."""
    first = Recording(options, 0)
    try:
        wait_for([first])
        record = classes.Record(first.path)
    except Failed:
        # It may have waited for values of others, which are recorded next.
        partial = pathlib.Path(str(first.path) + PARTIAL)
        if not partial.is_file():
            raise
        record = classes.Record(partial)
        partial.unlink()
        if not record.with_messages:
            raise
    ranks, stands = classes.choose(record, options.checks)
    if len(ranks) > 1:
        # Rank 0 once more: the others get what it sends them.
        record_together(options, ranks, stands)
    return ranks


def record(options):
    """Returns the ranks that were recorded. Raises Failed."""
    options.out.mkdir(parents=True, exist_ok=True)
    for old in options.out.glob("rank-*.*"):
        old.unlink()
    if options.ranks == "auto":
        return record_auto(options)
    if options.ranks == "all":
        ranks = list(range(options.world))
    elif re.fullmatch(r"\d+(,\d+)*", options.ranks):
        ranks = sorted({int(rank) for rank in options.ranks.split(",")})
        if ranks[-1] >= options.world:
            raise Failed(f"there is no rank {ranks[-1]} in a world of {options.world} (--ranks)")
    else:
        raise Failed(f'--ranks is "{options.ranks}"; give auto, all, or a list: 0,8,16')
    subprocess.run([sys.executable, "-m", "shardsim.torch.build_native"], check=True)
    record_together(options, ranks,
                    [rank if rank in ranks else ranks[0] for rank in range(options.world)])
    return ranks


def main():
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
    try:
        ranks = record(options)
    except BaseException as error:
        for part in options.out.glob("rank-*.jsonl*"):
            part.unlink()  # A replay would take it for all.
        if not isinstance(error, Failed):
            raise
        print(f"shardsim torch: {error}", file=sys.stderr)
        return 1
    log = options.out / f"rank-{ranks[0]}.log"
    with open(log, encoding="utf-8", errors="replace") as output:
        shutil.copyfileobj(output, sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
