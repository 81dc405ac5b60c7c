"""Trains nanoGPT's model by DeepSpeed. usage: zero.py STAGE WIDTH"""

import sys

import deepspeed
import torch
from model import GPT, GPTConfig

stage, width = map(int, sys.argv[1:])
vocabulary = 16 * width
model = GPT(GPTConfig(block_size=width, vocab_size=vocabulary, n_layer=4, n_head=width // 64,
                      n_embd=width))
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
    "train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": True}, "gradient_clipping": 1.0,
    "zero_optimization": {"stage": stage},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}})
for step in range(3):
    torch.manual_seed(step)
    tokens = torch.randint(vocabulary, (4, width + 1), device=engine.device)
    _, loss = engine(tokens[:, :-1], tokens[:, 1:].contiguous())
    engine.backward(loss)
    engine.step()
    print(f"loss {loss.item():.3f}")
