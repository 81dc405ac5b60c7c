#!/bin/bash
# The arguments of Megatron-LM's example for GPT-3 175B, as a launch script.
GPUS_PER_NODE=8
NUM_NODES=1
CHECKPOINT_PATH=$1 # where to save
MODEL_ARGS=(
    --num-layers 96
    --hidden-size 12288
    --num-attention-heads 96
    --seq-length 2048
    --max-position-embeddings 2048
)
TRAINING_ARGS="--micro-batch-size 1 --global-batch-size 1536 --rampup-batch-size 16 16 5859375
  --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --clip-grad 1.0 --fp16 --lr 6.0e-5"
PARALLEL_ARGS=(
	--tensor-model-parallel-size 8
	--pipeline-model-parallel-size=16
)
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes ${NUM_NODES} pretrain_gpt.py ${MODEL_ARGS[@]} \
    ${TRAINING_ARGS} ${PARALLEL_ARGS[@]} --split 949,50,1 --save $CHECKPOINT_PATH
