#!/usr/bin/env python3
"""Prints the headers that are installed, one per line, relative to the root: all of the layers a
strategy is written against, but for the private parts of backends, and what drags Boost or
Eigen in.

usage: list_headers.py ROOT
"""

import pathlib
import sys

FOLDERS = ("sim/kernel", "sim/hardware", "backends", "strategies", "sim/harness")
PRIVATE = ("backends/message", "backends/mpi", "backends/nccl", "backends/rendezvous",
           "sim/kernel/fiber_scheduler.hpp", "strategies/model/row_matrix.hpp",
           "strategies/model/columns.hpp", "strategies/model/sequence_chunks.hpp",
           "strategies/model/causal_convolution.hpp", "strategies/model/delta_rule.hpp",
           "strategies/model/delta_rule_chunk.hpp", "strategies/model/gated_norm.hpp",
           "strategies/model/state_space.hpp", "strategies/model/state_space_chunk.hpp",
           "strategies/model/gated_delta_net.hpp", "strategies/model/mamba_mixer.hpp",
           "strategies/sharding/position_exchange.hpp")
SINGLE = (pathlib.PurePath("reports/diagnosis_json.hpp"),)


def installed_headers(root):
    found = (path.relative_to(root) for folder in FOLDERS
             for path in sorted((root / folder).rglob("*.hpp")))
    public = [path for path in found if not any(path.is_relative_to(private) for private in PRIVATE)]
    return [*public, *SINGLE]


if __name__ == "__main__":
    print("\n".join(path.as_posix() for path in installed_headers(pathlib.Path(sys.argv[1]))))
