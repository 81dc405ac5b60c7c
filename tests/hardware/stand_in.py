#!/usr/bin/env python3
"""Replaces shardsim on a machine with GPUs; answers at once. STAND_IN_FAILS names the failures."""

import json
import os
import signal
import subprocess
import sys
import time

FAILS = os.environ.get("STAND_IN_FAILS", "").split(",")
ROWS = ("mpirun", "CUDA runtime", "NVIDIA driver", "GPUs", "NCCL", "loopback counter")


def collective(words):
    wrong = 3 if "values" in FAILS and "--ranks" in words and words[words.index("--ranks") + 1] == "4" else 0
    wire = 10 if "NCCL_ALGO" not in os.environ and "wire" not in FAILS else 20
    if "--json" not in words:
        print("# Avg bus bandwidth    : 1")
        return 0
    print(json.dumps({"wrong_elements": wrong, "sent_bytes": 10, "wire_bytes": wire,
                      "rows": [{"sent_bytes": 5, "simulated_sent_bytes": 5}]}))
    return 1 if wrong else 0


def endless(words):
    """Eight ranks; when one dies the others are ended, unless "kill" fails."""
    del words
    ranks = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env={**os.environ, "SHARDSIM_RANK": str(rank)}) for rank in range(8)]
    while all(rank.poll() is None for rank in ranks):
        time.sleep(0.02)
    if "kill" not in FAILS:
        for rank in ranks:
            rank.send_signal(signal.SIGKILL)
            rank.wait()
    print("error: rank 1 was killed by signal 9" if "name" not in FAILS else "error", file=sys.stderr)
    return 5


def main(words):
    log = os.environ.get("NCCL_DEBUG_FILE")
    if log and "logs" not in FAILS:
        with open(log.replace("%h", "here").replace("%p", str(os.getpid())), "w", encoding="utf-8") as file:
            file.write("NCCL INFO\n")
    if words[0] == "--version":
        print("shardsim 0.1.0")
    elif words[0] == "doctor":
        print(json.dumps({"doctor": [{"what": row, "available": row not in ["mpirun", *FAILS], "detail": f"{row} seen",
                                      "remedy": ""} for row in ROWS]}))
    elif words[0] == "collective":
        return collective(words)
    elif "execution.steps=1000000" in words:
        return endless(words)
    else:
        passed = "scenario" not in FAILS or "verify-gpt-hsdp.json" not in words[0]
        print(json.dumps({"checks": [{"name": "nccl.values", "passed": passed}], "diagnosis": None}))
        return 0 if passed else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
