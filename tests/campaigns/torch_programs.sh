#!/usr/bin/env bash
# Records training programs that others wrote, unmodified, and replays them. It wants PyTorch 2.6 and
# tiktoken (Debian 13: python3-torch, python3-tiktoken), git and the network, so CI does not run it.
#
# usage: torch_programs.sh SHARDSIM FOLDER   FOLDER: for their sources and the records
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command=$(realpath "$1")
folder=$(mkdir -p "$2" && cd "$2" && pwd)
commit=3996b634a58c7b7de3f7f7b815058245d8c69e01  # Of torchtitan; it fits PyTorch 2.6.

[[ -d $folder/torchtitan ]] ||
  git clone --quiet https://github.com/pytorch/torchtitan "$folder/torchtitan"
git -C "$folder/torchtitan" checkout --quiet "$commit"

python3 -B "$root/tests/campaigns/torch_programs/tokenizer.py" "$folder/tokenizer.model"

# record NAME RANKS ARGS...: of torchtitan's train.py
record() {
  local out=$folder/$1 ranks=$2
  shift 2
  (cd "$folder/torchtitan" &&
    PYTHONPATH=$root/python:$root/tests/campaigns/torch_programs/stand_ins \
      python3 -B -m shardsim.torch.record --world "$ranks" --out "$out" train.py "$@")
  "$command" replay "$out" --system dgx-h100
}

debug=(--job.config_file train_configs/debug_model.toml)
record debug 8 "${debug[@]}"
record debug-3d 8 "${debug[@]}" --training.tensor_parallel_degree 2 \
  --experimental.pipeline_parallel_degree 2 --experimental.pipeline_parallel_schedule 1F1B
record llama3-8b 1024 --job.config_file train_configs/llama3_8b.toml \
  --model.tokenizer_path "$folder/tokenizer.model"
