#!/usr/bin/env python3
"""Prints the headers that are installed, one per line, relative to the root: all of the layers a
strategy is written against, but for the private parts of backends and of layers, and what drags
Eigen in.

usage: list_headers.py ROOT
"""

import pathlib
import re
import sys

FOLDERS = ("sim/kernel", "sim/hardware", "backends", "strategies", "sim/harness")
PRIVATE = ("backends/message", "backends/mpi", "backends/nccl", "backends/rendezvous",
           "sim/harness/call_log.hpp", "sim/harness/call_steps.hpp", "sim/harness/logged_run.hpp",
           "sim/harness/process_checks.hpp", "sim/harness/shown_figures.hpp", "sim/harness/step_exchange.hpp",
           "sim/kernel/fiber_scheduler.hpp", "strategies/model/columns.hpp",
           "strategies/model/sequence_chunks.hpp", "strategies/model/causal_convolution.hpp",
           "strategies/model/delta_rule.hpp", "strategies/model/gated_norm.hpp",
           "strategies/model/state_space.hpp", "strategies/model/gated_delta_net.hpp",
           "strategies/model/mamba_mixer.hpp", "strategies/sharding/position_exchange.hpp")
SINGLE = (pathlib.PurePath("reports/diagnosis_json.hpp"),)
INCLUDED = re.compile(r'^#include (?:"([^"]+)"|<(Eigen)/)', re.MULTILINE)


def with_eigen(root, headers):
    """Those of `headers` that include Eigen, themselves or by others of them."""
    includes = {path: INCLUDED.findall((root / path).read_text(encoding="utf-8")) for path in headers}
    found = set()
    while True:
        more = {path for path, lines in includes.items() if path not in found
                and any(eigen or pathlib.PurePath(ours) in found for ours, eigen in lines)}
        if not more:
            return found
        found |= more


def installed_headers(root):
    found = [path.relative_to(root) for folder in FOLDERS
             for path in sorted((root / folder).rglob("*.hpp"))]
    numeric = with_eigen(root, found)
    public = [path for path in found if path not in numeric
              and not any(path.is_relative_to(private) for private in PRIVATE)]
    return [*public, *SINGLE]


if __name__ == "__main__":
    print("\n".join(path.as_posix() for path in installed_headers(pathlib.Path(sys.argv[1]))))
