#!/usr/bin/env bash
# Runs training programs that others wrote, unmodified: plans them for many ranks, and trains them with
# real numbers on 4. It wants PyTorch 2.6 and what they import (Debian 13: python3-torch, python3-tiktoken,
# python3-hjson, python3-cpuinfo, python3-psutil, python3-pydantic, python3-tqdm, python3-msgpack,
# python3-einops, python3-setuptools, python3-six, python3-pybind11, libopenblas0-pthread, make), git and the
# network, so CI does not run it.
#
# usage: torch_programs.sh SHARDSIM FOLDER [NAME...]   FOLDER: for their sources and what is printed
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
own=$root/tests/campaigns/torch_programs
command=$(realpath "$1")
folder=$(mkdir -p "$2" && cd "$2" && pwd)
shift 2
wanted=" $* "

# fetch NAME REPOSITORY COMMIT
fetch() {
  [[ -d $folder/$1/.git ]] || git clone --quiet "https://github.com/$2" "$folder/$1"
  git -C "$folder/$1" checkout --quiet "$3" 2>/dev/null ||
    { git -C "$folder/$1" fetch --quiet && git -C "$folder/$1" checkout --quiet "$3"; }
}
fetch examples pytorch/examples 77f55b912142e11fcfdf5b530231fb9c52f181e8
fetch nanogpt karpathy/nanoGPT 3adf61e154c3fe3fca428ad6bc3818b27a3b8291
fetch torchtitan pytorch/torchtitan 3996b634a58c7b7de3f7f7b815058245d8c69e01
fetch megatron NVIDIA/Megatron-LM aa6207e2da6bca789375f591c9124aa408d2509a     # core_v0.11.0
fetch deepspeed deepspeedai/DeepSpeed e2dc3eeb1923073e32739596a4fd051417d4ff92 # v0.16.4

python3 -B "$own/tokenizer.py" "$folder/tokenizer.model"
# Tokens of nanoGPT's data: 65,536 zeros.
for part in train val; do
  head -c 131072 /dev/zero >"$folder/nanogpt/data/openwebtext/$part.bin"
done
export PYTHONPATH=$own/stand_ins:$folder/deepspeed:$folder/nanogpt${PYTHONPATH:+:$PYTHONPATH}
export CUDA_HOME=$own/stand_ins/cuda CUDA_DEVICE_MAX_CONNECTIONS=1

# run NAME WAYS FOLDER SCRIPT ARGS...: a way is a number of ranks for which it is planned, all8 where all 8
# are recorded, or v4: 4 ranks train with real numbers.
run() {
  local name=$1 ways=$2 where=$3 way log begin words
  shift 3
  [[ $wanted == "  " || $wanted == *" $name "* ]] || return 0
  for way in $ways; do
    log=$folder/$name-$way.txt
    begin=$SECONDS
    words=(--world "${way//[a-z]/}")
    [[ $way == v* ]] && words+=(--verify)
    [[ $way == all* ]] && words+=(--ranks all)
    if (cd "$folder/$where" && "$command" torch --system dgx-h100 "${words[@]}" "$@") >"$log" 2>&1; then
      printf '%-16s %5s %4s s  %s\n' "$name" "$way" $((SECONDS - begin)) "$(summary "$log")"
    else
      printf '%-16s %5s %4s s  refused: %s\n' "$name" "$way" $((SECONDS - begin)) "$(reason "$log")"
    fi
  done
}
# Step time and memory of a plan; calls and the verdict of a training.
summary() {
  awk '/^  step time / { printf "step %s %s", $3, $4 }
       /^  memory of tensors / { printf ", %s %s", $4, $5 }
       / calls in .* sent/ { printf "%s", $0 }
       /^  OK$/ { printf ", OK" }' "$1"
}
reason() { grep -E 'error\[E|Error: |^[A-Z_]+: ' "$1" | tail -n 1 || tail -n 1 "$1"; }

parallel=examples/distributed/tensor_parallelism
run fsdp2 "8 1024 v4" examples/distributed/FSDP2 example.py
run tp "8 32 1024 v4" $parallel tensor_parallel_example.py
run sp "8 32 1024 v4" $parallel sequence_parallel_example.py
run fsdp-tp "8 256 1024 v4" $parallel fsdp_tp_example.py

run nanogpt 8 nanogpt train.py --batch_size=4 --eval_iters=1 --gradient_accumulation_steps=8
run nanogpt 1024 nanogpt train.py --batch_size=4 --eval_iters=1 --gradient_accumulation_steps=1024
run nanogpt v4 nanogpt train.py --batch_size=4 --eval_iters=1 --gradient_accumulation_steps=4 \
  --n_layer=2 --n_head=4 --n_embd=128 --block_size=64 --dtype=float32

debug=(train.py --job.config_file train_configs/debug_model.toml)
run torchtitan 8 torchtitan "${debug[@]}"
run torchtitan v4 torchtitan "${debug[@]}" --training.seq_len 128 --training.batch_size 2 \
  --training.mixed_precision_param float32
run torchtitan-3d 8 torchtitan "${debug[@]}" --training.tensor_parallel_degree 2 \
  --experimental.pipeline_parallel_degree 2 --experimental.pipeline_parallel_schedule 1F1B
run torchtitan-8b 1024 torchtitan train.py --job.config_file train_configs/llama3_8b.toml \
  --model.tokenizer_path "$folder/tokenizer.model"

# The pure PyTorch path: no Transformer Engine, no apex.
# shellcheck disable=SC2054  # A comma is part of a word.
gpt=(pretrain_gpt.py --transformer-impl local --no-persist-layer-norm --no-gradient-accumulation-fusion
  --no-masked-softmax-fusion --no-rope-fusion --no-bias-swiglu-fusion --no-bias-dropout-fusion
  --mock-data --tokenizer-type NullTokenizer --split 949,50,1 --train-iters 10 --eval-iters 0
  --bf16 --lr 1e-4 --min-lr 1e-5 --swiglu --normalization RMSNorm --position-embedding-type rope
  --disable-bias-linear --untie-embeddings-and-output-weights --log-interval 100)
small=(--vocab-size 1000 --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32
  --max-position-embeddings 32 --micro-batch-size 2 --global-batch-size 8)
large=(--vocab-size 32000 --num-layers 32 --hidden-size 4096 --num-attention-heads 32
  --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1)
tp_pp() { echo --tensor-model-parallel-size "$1" --pipeline-model-parallel-size "$2"; }
# shellcheck disable=SC2046
{
  run megatron 8 megatron "${gpt[@]}" "${large[@]}" --global-batch-size 8 $(tp_pp 2 2)
  run megatron 1024 megatron "${gpt[@]}" "${large[@]}" --global-batch-size 512 $(tp_pp 8 4)
  run megatron v4 megatron "${gpt[@]}" "${small[@]}" $(tp_pp 2 2)
  run megatron-sp 8 megatron "${gpt[@]}" "${large[@]}" --global-batch-size 8 $(tp_pp 2 2) --sequence-parallel
}

for stage in 1 2 3; do
  run "zero-$stage" "all8 1024" . "$own/zero.py" "$stage" 1024
  run "zero-$stage" v4 . "$own/zero.py" "$stage" 64
done
