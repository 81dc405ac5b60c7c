"""Runs one rank of an unmodified script with real numbers. Its calls are performed by shardsim.

usage: python3 -m shardsim.torch.verify --rank 0 --world 4 --gpu-facts JSON --socket PATH
       --stack PATH train.py ARGS...
"""

import faulthandler
import json
import os
import signal
import sys
import traceback

import torch

from shardsim.torch import build_native, cuda, distributed, launch

MOST_LETTERS = 2000  # Of an error's text.


def parsed(arguments):
    parser = launch.parser_of_rank("shardsim.torch.verify", __doc__.splitlines()[0])
    parser.add_argument("--socket", required=True, help="where shardsim listens")
    parser.add_argument("--stack", required=True, help="gets the stack at SIGUSR1")
    return parser.parse_args(arguments)


def place_of(error):
    """File and line of the script at which an exception passed last."""
    folders = tuple(launch.library_folders())
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if not frame.filename.startswith((*folders, "<"))]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def say_end(native, text="", site=""):
    native.end(f'"end":{json.dumps(text)},"site":{json.dumps(site)}')


def run(options):
    native = build_native.load(torch)
    native.connect(options.socket)
    native.set_on(False)
    cuda.install(native, options.gpu_facts, with_data=True)
    distributed.install(native, options.rank, options.world)
    launch.prepare(native, options)
    native.say_rank(options.rank)  # From here on its silence is the script's.
    failures = []
    status = launch.status_of(options.script, failures.append)
    sys.stdout.flush()
    sys.stderr.flush()
    if failures:
        error = failures[0]
        say_end(native, f"{type(error).__name__}: {error}"[:MOST_LETTERS], place_of(error))
    elif status:
        say_end(native, f"the script ended with {status}")
    else:
        say_end(native)
    return status


def main():
    options = parsed(sys.argv[1:])
    launch.set_environment(options)
    with open(options.stack, "w", encoding="utf-8") as stack:
        faulthandler.register(signal.SIGUSR1, file=stack, all_threads=True)
        try:
            status = run(options)
        except build_native.CannotBuild as error:
            print(f"shardsim: {error}", file=sys.stderr)
            status = 70
        sys.stderr.flush()
        os._exit(status)  # Threads of the script may wait for ranks that do not run.


if __name__ == "__main__":
    main()
