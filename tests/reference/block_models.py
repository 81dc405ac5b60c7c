"""Blocks of huggingface/transformers in PyTorch, followed line by line, on weights of a state dump.

The files, each with the commit at which it was read:
  models/gemma2/modeling_gemma2.py    006e86931247d7bacf94ad00ada1fb6baf11e94b
  models/gpt_oss/modeling_gpt_oss.py  6edf5b311854175ff83c59179b3360beca1ceffc
Casts to fp32 are left out: all is fp64. Gemma turns element i with i + d / 2, where shardsim turns
neighbours. The attention around GPT-OSS's experts is that of models.py, and their clip is at swiglu_limit
and not at GptOssExperts.limit, so that few steps from small weights reach it.
"""

import torch
import torch.nn.functional as F
from torch import nn

import models


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def repeat_kv(hidden_states, n_rep):
    batch, num_key_value_heads, slen, head_dim = hidden_states.shape
    hidden_states = hidden_states[:, :, None, :, :].expand(batch, num_key_value_heads, n_rep, slen,
                                                           head_dim)
    return hidden_states.reshape(batch, num_key_value_heads * n_rep, slen, head_dim)


class Gemma2(models.Llama):
    def norm(self, name, x):
        """Gemma2RMSNorm.forward."""
        output = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return output * (1.0 + self.w[name])

    def logits(self, tokens):
        """Gemma2Model.forward with Gemma2DecoderLayer.forward, and Gemma2ForCausalLM.forward."""
        hidden_states = F.embedding(tokens, self.w["embedding.tokens"])
        hidden_states = hidden_states * self.options["hidden_size"]**0.5
        for block in range(self.options["num_layers"]):
            name = f"blocks.{block}"
            residual = hidden_states
            hidden_states = self.norm(name + ".norm1", hidden_states)
            hidden_states = self.attention(name, hidden_states)
            hidden_states = self.norm(name + ".output_norm1", hidden_states)
            hidden_states = residual + hidden_states
            residual = hidden_states
            hidden_states = self.norm(name + ".norm2", hidden_states)
            hidden_states = self.mlp(block, hidden_states)
            hidden_states = self.norm(name + ".output_norm2", hidden_states)
            hidden_states = residual + hidden_states
        hidden_states = self.norm("final_norm", hidden_states)
        logits = F.linear(hidden_states, self.w["embedding.tokens"])
        cap = self.options["final_logit_cap"]
        logits = logits / cap
        logits = torch.tanh(logits)
        return logits * cap

    def mlp(self, block, x):
        """Gemma2MLP.forward; ACT2FN["gelu_pytorch_tanh"]."""
        gate, up, down = (self.w[f"blocks.{block}.mlp.{part}"] for part in ("gate", "up", "down"))
        return F.linear(F.gelu(F.linear(x, gate), approximate="tanh") * F.linear(x, up), down)

    def halves(self, x):
        """From neighbours to halves: element 2 i to i, 2 i + 1 to i + d / 2."""
        return torch.cat((x[..., 0::2], x[..., 1::2]), dim=-1)

    def rotary(self, length):
        """Gemma2RotaryEmbedding.forward."""
        dim = self.head_size
        inv_freq = 1.0 / (self.options["rope_theta"] ** (
            torch.arange(0, dim, 2, dtype=models.DTYPE) / dim))
        freqs = torch.arange(length, dtype=models.DTYPE)[:, None] * inv_freq[None, :]
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos(), emb.sin()

    def mask(self, name, length):
        """0 or -inf; Gemma2DecoderLayer.forward masks what is a window or more behind, in even layers."""
        layers = self.options["layers"]
        layer = layers[int(name.split(".")[1]) % len(layers)]
        distance = torch.arange(length)[:, None] - torch.arange(length)[None, :]
        hidden = distance < 0
        if layer["attention"] == "sliding":
            hidden |= distance >= layer["window_size"]
        return torch.zeros(length, length, dtype=models.DTYPE).masked_fill(hidden, -torch.inf)

    def attention(self, name, x):
        """Gemma2Attention.forward with eager_attention_forward."""
        query, key, value = (
            models.heads_of(F.linear(x, self.w[f"{name}.attention.w{part}"]), self.head_size)
            for part in "qkv")
        query, key = self.halves(query), self.halves(key)
        cos, sin = self.rotary(x.shape[1])
        query, key = ((q * cos) + (rotate_half(q) * sin) for q in (query, key))
        groups = query.shape[1] // key.shape[1]
        key_states, value_states = repeat_kv(key, groups), repeat_kv(value, groups)
        scaling = self.options["attention_scale"]  # config.query_pre_attn_scalar**-0.5
        attn_weights = torch.matmul(query, key_states.transpose(2, 3)) * scaling
        cap = self.options["attention_logit_cap"]
        attn_weights = attn_weights / cap
        attn_weights = torch.tanh(attn_weights)
        attn_weights = attn_weights * cap
        attn_weights = attn_weights + self.mask(name, x.shape[1])
        attn_weights = nn.functional.softmax(attn_weights, dim=-1)
        attn_output = torch.matmul(attn_weights, value_states)
        return F.linear(models.joined(attn_output), self.w[name + ".attention.wo"])


class ClampedExperts(models.Llama):
    alpha = 1.702

    def experts(self, name, x):
        """GptOssMLP.forward: GptOssTopKRouter.forward, and the loop of GptOssExperts.forward. There gate
        and up are the even and odd columns of one matrix; here they are two."""
        top_k, number = self.options["num_experts_per_token"], self.options["num_experts"]
        limit = self.options["swiglu_limit"]
        router_logits = F.linear(x, self.w[name + ".router"], self.w[name + ".router.bias"])
        router_top_value, router_indices = torch.topk(router_logits, top_k, dim=-1)
        router_top_value = torch.nn.functional.softmax(router_top_value, dim=1)
        routing_weights = torch.zeros_like(router_logits).scatter_(1, router_indices, router_top_value)
        next_states = torch.zeros_like(x)
        expert_mask = torch.nn.functional.one_hot(router_indices, num_classes=number).permute(2, 1, 0)
        w = {part: (self.w[f"{name}.experts.{part}"], self.w[f"{name}.experts.{part}.bias"])
             for part in ("gate", "up", "down")}
        for expert_idx in range(number):
            _, token_idx = torch.where(expert_mask[expert_idx])
            current_state = x[token_idx]
            gate, up = (F.linear(current_state, w[part][0][expert_idx], w[part][1][expert_idx])
                        for part in ("gate", "up"))
            gate = gate.clamp(min=None, max=limit)
            up = up.clamp(min=-limit, max=limit)
            glu = gate * torch.sigmoid(gate * self.alpha)
            gated_output = (up + 1) * glu
            out = F.linear(gated_output, w["down"][0][expert_idx], w["down"][1][expert_idx])
            weighted_output = out * routing_weights[token_idx, expert_idx, None]
            next_states = next_states.index_add(0, token_idx, weighted_output)
        return next_states


CASES = {"gemma2": Gemma2, "clamped_experts": ClampedExperts}


def losses_and_gradients(case, run):
    """(the loss of every step, the gradients of the last by name), each with the weights that shardsim
    has before the step."""
    weights, losses = {}, []
    model = CASES[case](run.scenario["model"], weights)
    for step in range(1, run.steps + 1):
        weights.update({name: models.tensor_of(each).requires_grad_() for name, each in
                        run.of_kind(step - 1, "parameter").items()})
        inputs, targets = (models.tensor_of(run.tensors(step)[name]) for name in ("inputs", "targets"))
        logits = model.logits(inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1,
                               reduction="sum") / (targets >= 0).sum()
        loss.backward()
        losses.append(loss.item())
    return losses, {name: weight.grad for name, weight in weights.items()}
