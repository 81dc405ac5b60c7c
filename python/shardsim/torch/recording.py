"""Ranks of a script in processes of their own, and which of them stand for all.

Importing this loads PyTorch and the virtual device, once for all ranks: a rank's process is forked.
"""

import os
import pathlib
import re
import signal
import sys
import time
import traceback

import torch
from torch.distributed import TCPStore

from shardsim.torch import build_native, classes, launch
from shardsim.torch.program import PARTIAL

MOST_TOGETHER = 64
TAIL = 25  # Lines of a rank's output that are shown where it fails.


class Failed(Exception):
    """A rank could not be recorded; the text says why."""


def forked(run, output=os.devnull):
    """The number of a process that calls `run`. This process must have a single thread."""
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # Its handler is this process's.
    pid = os.fork()
    if pid != 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        return pid
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(log, 1)
        os.dup2(log, 2)
        run()
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(70)


def load():
    """Loads all that ranks are forked with. Raises Failed."""
    try:
        build_native.load(torch)
    except build_native.CannotBuild as error:
        raise Failed(str(error)) from None
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise Failed(f"PyTorch, or what Python loads when it starts, has started {threads - 1} threads, "
                     "and ranks cannot be forked beside them: set OPENBLAS_NUM_THREADS=1 and "
                     "MKL_NUM_THREADS=1, and look at PYTHONSTARTUP and sitecustomize")


def end(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


class Recording:
    """One rank in a process of its own. Its output is kept beside its record."""

    def __init__(self, options, rank, together=(), represent=None, port=0):
        self.rank = rank
        self.path = options.out / f"rank-{rank}.jsonl"
        self.log = options.out / f"rank-{rank}.log"
        words = ["--rank", str(rank), "--world", str(options.world), "--gpu-facts", options.gpu_facts,
                 "--steps", str(options.steps), "--limit", str(options.limit / 2),
                 "--recorder", str(os.getpid()), "--out", str(self.path)]
        if len(together) > 1:
            words += ["--recorded", ",".join(map(str, together)), "--represent", str(represent),
                      "--port", str(port)]
        words += ["--", options.script, *options.arguments]
        self.pid = forked(lambda: launch.main(words), self.log)
        self.latest = time.monotonic() + options.limit

    def has_ended(self):
        """Raises Failed."""
        pid, waited = os.waitpid(self.pid, os.WNOHANG)
        if pid != 0:
            self.pid = 0
        elif time.monotonic() > self.latest:
            raise Failed(f"rank {self.rank} did not end in time (--limit); its last lines:\n"
                         + self.tail())
        status = os.waitstatus_to_exitcode(waited)
        if status:
            raise Failed(f"rank {self.rank} ended with {status}; its last lines:\n" + self.tail())
        return pid != 0

    def kill(self):
        if self.pid != 0:
            end(self.pid)

    def tail(self):
        if not self.log.is_file():
            return "  (its output is not there)"
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join("  " + line for line in lines[-TAIL:])


def meeting_place():
    """A process with a store for the values that recorded ranks leave for each other, and its port.
    The store has threads, so it must not be where ranks are forked."""
    readable, writable = os.pipe()
    recorder = os.getpid()

    def keep():
        launch.end_with(recorder)
        store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False, use_libuv=False)
        os.write(writable, str(store.port).encode())
        os.close(writable)
        signal.pause()

    pid = forked(keep)
    os.close(writable)
    with os.fdopen(readable) as port:
        said = port.read()
    if not said:
        end(pid)
        raise Failed("recorded ranks cannot meet: no port of localhost can be opened")
    return pid, int(said)


def wait_for(recordings):
    """Until all have ended. Raises Failed for the first that fails; then the others end, too."""
    running = list(recordings)
    try:
        while running:
            running = [recording for recording in running if not recording.has_ended()]
            time.sleep(0.02)
    finally:
        for recording in running:
            recording.kill()


def record_together(options, ranks, stands):
    """Ranks that leave small values for each other."""
    if len(ranks) > MOST_TOGETHER:
        raise Failed(f"{len(ranks)} ranks would run at the same time, one process each, and at most "
                     f"{MOST_TOGETHER} may: name fewer (--ranks)")
    represent = options.out / "represent.txt"
    represent.write_text(" ".join(map(str, stands)), encoding="utf-8")
    store, port = meeting_place()
    running = []
    try:
        try:
            for rank in ranks:
                running.append(Recording(options, rank, ranks, represent, port))
        except OSError as error:
            for recording in running:
                recording.kill()
            raise Failed(f"a process for rank {ranks[len(running)]} does not start: {error}") from None
        wait_for(running)
    finally:
        end(store)
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


def ranks_of(options):
    """Those that --ranks names; none for auto. Raises Failed."""
    if options.ranks == "auto":
        return []
    if options.ranks == "all":
        return list(range(options.world))
    if not re.fullmatch(r"\d+(,\d+)*", options.ranks):
        raise Failed(f'--ranks is "{options.ranks}"; give auto, all, or a list: 0,8,16')
    ranks = sorted({int(rank) for rank in options.ranks.split(",")})
    if ranks[-1] >= options.world:
        raise Failed(f"there is no rank {ranks[-1]} in a world of {options.world} (--ranks)")
    return ranks


def record(options):
    """Returns the ranks that were recorded. Raises Failed."""
    ranks = ranks_of(options)
    load()
    options.out.mkdir(parents=True, exist_ok=True)
    for old in options.out.glob("rank-*.*"):
        old.unlink()
    if not ranks:
        return record_auto(options)
    record_together(options, ranks,
                    [rank if rank in ranks else ranks[0] for rank in range(options.world)])
    return ranks
