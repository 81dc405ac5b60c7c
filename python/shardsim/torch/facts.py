"""What programs ask of their GPU, as `shardsim torch --gpu-facts --system dgx-h100` prints it."""

import argparse
import json
import os
import shutil
import subprocess

NAMES = ("name", "memory_bytes", "compute_capability", "multiprocessors", "gpus_per_node")


class Unknown(RuntimeError):
    """The machine does not say what a program asks of its GPU."""

    def __init__(self, what):
        super().__init__(
            f"the machine does not say its GPU's {what}, for which the script asks: its device.kernels "
            'is "none"; name the GPU that it is like (--set system.device.kernels=h100-sxm)')


def parsed(text):
    """The facts of an option's text."""
    try:
        facts = json.loads(text)
        missing = [name for name in NAMES if name not in facts]
    except (ValueError, TypeError):
        raise argparse.ArgumentTypeError("this is no JSON object") from None
    if missing:
        raise argparse.ArgumentTypeError(f"{missing[0]} is missing")
    return facts


def asked_of_command(system):
    """The text of a system's facts. Raises OSError or CalledProcessError, whose stderr says why."""
    command = os.environ.get("SHARDSIM") or shutil.which("shardsim")
    if command is None:
        raise FileNotFoundError("no command shardsim is in PATH: set SHARDSIM to it")
    return subprocess.run([command, "torch", "--gpu-facts", "--system", system], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True).stdout
