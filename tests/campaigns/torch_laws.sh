#!/usr/bin/env bash
# Runs the laws of PyTorch programs where PyTorch is: those of recordings, and beside them, on another core,
# those of --verify. torch.sh calls it.
#
# usage: torch_laws.sh [WORD...]   as python3 -m unittest has them; with names of tests these alone
set -euo pipefail

laws=$(dirname "${BASH_SOURCE[0]}")/../torch/laws_test.py
if [[ "$*" == *Test* ]]; then
  exec python3 -B "$laws" "$@"
fi
log=$(mktemp)
python3 -B "$laws" "$@" VerifyTest >"$log" 2>&1 &
verify=$!
status=0
python3 -B "$laws" "$@" LawsTest || status=$?
wait "$verify" || status=$?
cat "$log"
rm "$log"
exit "$status"
