"""Latent attention of huggingface/transformers in PyTorch, followed line by line, on weights of a state dump.

The file: models/deepseek_v3/modeling_deepseek_v3.py at 00b676f8f0489b88652a31d70751cc540dd06305,
DeepseekV3Attention with apply_rotary_pos_emb_interleave and eager_attention_forward. Casts to fp32 are left
out: all is fp64. The norms of latents have the model's epsilon, which every published file makes the same.
The blocks around it are those of models.py.
"""

import torch
import torch.nn.functional as F
from torch import nn

import models


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2:]
    return torch.cat((-x2, x1), dim=-1)


def rotary_emb(length, dim, base):
    """DeepseekV3RotaryEmbedding.forward, with the frequencies of _compute_default_rope_parameters."""
    inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2, dtype=models.DTYPE) / dim))
    position_ids = torch.arange(length, dtype=models.DTYPE)[None, :]
    inv_freq_expanded = inv_freq[None, :, None]
    freqs = (inv_freq_expanded @ position_ids[:, None, :]).transpose(1, 2)
    emb = torch.cat((freqs, freqs), dim=-1)
    return emb.cos(), emb.sin()


def apply_rotary_pos_emb_interleave(q, k, cos, sin, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)

    b, h, s, d = q.shape
    q = q.view(b, h, s, d // 2, 2).transpose(4, 3).reshape(b, h, s, d)

    b, h, s, d = k.shape
    k = k.view(b, h, s, d // 2, 2).transpose(4, 3).reshape(b, h, s, d)

    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed


def eager_attention_forward(query, key, value, scaling):
    attn_weights = torch.matmul(query, key.transpose(2, 3)) * scaling
    length = query.shape[2]
    causal_mask = torch.triu(torch.full((length, length), -torch.inf, dtype=models.DTYPE), diagonal=1)
    attn_weights = attn_weights + causal_mask
    attn_weights = nn.functional.softmax(attn_weights, dim=-1)
    attn_output = torch.matmul(attn_weights, value)
    return attn_output.transpose(1, 2).contiguous()


class Latent(models.Llama):
    def attention(self, name, x):
        """DeepseekV3Attention.forward, behind input_layernorm."""
        m, name = self.options, name + ".attention."
        qk_nope_head_dim, qk_rope_head_dim = m["qk_nope_head_dim"], m["qk_rope_head_dim"]
        v_head_dim, kv_lora_rank = m["value_head_dim"], m["kv_lora_rank"]
        qk_head_dim = qk_nope_head_dim + qk_rope_head_dim
        scaling = m["attention_scale"] or qk_head_dim ** (-0.5)

        batch_size, seq_length = x.shape[:-1]
        query_shape = (batch_size, seq_length, -1, qk_head_dim)
        key_shape = (batch_size, seq_length, -1, qk_nope_head_dim + v_head_dim)

        if m["q_lora_rank"] == 0:
            q_states = F.linear(x, self.w[name + "wq"])
        else:
            q_a = self.norm(name + "q_norm", F.linear(x, self.w[name + "wq_down"]))
            q_states = F.linear(q_a, self.w[name + "wq_up"])
        q_states = q_states.view(query_shape).transpose(1, 2)
        q_pass, q_rot = torch.split(q_states, [qk_nope_head_dim, qk_rope_head_dim], dim=-1)

        compressed_kv = F.linear(x, self.w[name + "wkv_down"])
        k_pass, k_rot = torch.split(compressed_kv, [kv_lora_rank, qk_rope_head_dim], dim=-1)

        k_pass = F.linear(self.norm(name + "kv_norm", k_pass), self.w[name + "wkv_up"])
        k_pass = k_pass.view(key_shape).transpose(1, 2)
        k_pass, value_states = torch.split(k_pass, [qk_nope_head_dim, v_head_dim], dim=-1)

        k_rot = k_rot.view(batch_size, 1, seq_length, qk_rope_head_dim)

        cos, sin = rotary_emb(seq_length, qk_rope_head_dim, m["rope_theta"])
        q_rot, k_rot = apply_rotary_pos_emb_interleave(q_rot, k_rot, cos, sin)
        k_rot = k_rot.expand(*k_pass.shape[:-1], -1)

        query_states = torch.cat((q_pass, q_rot), dim=-1)
        key_states = torch.cat((k_pass, k_rot), dim=-1)

        attn_output = eager_attention_forward(query_states, key_states, value_states, scaling)
        attn_output = attn_output.reshape(batch_size, seq_length, -1).contiguous()
        return F.linear(attn_output, self.w[name + "wo"])


def losses_and_gradients(run):
    """Losses of all steps of a DumpedRun, and the gradients of the last, by name. Each step begins with the
    run's own weights."""
    losses, weights = [], {}
    for step in range(1, run.steps + 1):
        weights = {name: models.tensor_of(each).requires_grad_() for name, each in
                   run.of_kind(step - 1, "parameter").items()}
        model = Latent(run.scenario["model"], weights)
        inputs, targets = (models.tensor_of(run.tensors(step)[name]) for name in ("inputs", "targets"))
        loss = F.cross_entropy(model.logits(inputs).flatten(0, 1), targets.flatten(), ignore_index=-1)
        loss.backward()
        losses.append(loss.item())
    return losses, {name: weight.grad for name, weight in weights.items()}
