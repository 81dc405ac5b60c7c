#!/usr/bin/env bash
# Runs a portable shardsim on a machine with NVIDIA GPUs, NCCL and Python, and writes one dated report.
#
#   tests/hardware/run.sh BINARY [OUT]     BINARY: as `./dev portable` makes it; OUT: folder, default .
#
# Needs nothing else, and changes no setting of a GPU. Takes under 8 minutes; the report lists
# checks without time as skipped. Exit codes: 0 all good, 1 something failed, 77 nothing could be
# run here (no GPU, no NCCL, no Python), with the reason. NCCL somewhere unusual: SHARDSIM_NCCL_LIB.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if (($# < 1)); then
  sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
if ! command -v python3 >/dev/null; then
  echo "skipped: no python3 on this machine" >&2
  exit 77
fi
export SHARDSIM_PRESETS=${SHARDSIM_PRESETS:-$here/../../scenarios}
exec python3 -B "$here/hardware_check.py" "$@"
