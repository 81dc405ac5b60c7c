"""Attention with a key head for each four query heads, forward and backward."""

import torch
import torch.nn.functional as F


def heads(number):
    return torch.randn(2, number, 256, 64, dtype=torch.bfloat16, device="cuda", requires_grad=True)


def main():
    query, key, value = heads(8), heads(2), heads(2)
    made = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    made.backward(torch.ones_like(made))
    assert query.grad.shape == query.shape and key.grad.shape == key.shape


main()
