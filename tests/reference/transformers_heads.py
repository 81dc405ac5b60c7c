"""Models whose layers have heads of their own, in PyTorch: Gemma 4, MiMo-V2 and Step 3.5, followed line by
line, on weights of a state dump.

The files, each with the commit at which it was read:
  huggingface/transformers, src/transformers
    models/gemma4/modeling_gemma4.py                0246b4f3335464614ef1de66531f9131a44ec801
    models/mimo_v2_flash/modeling_mimo_v2_flash.py  019770ddcfd6bd6c1089adebb7e6428b2155cf01
  google-deepmind/gemma, gemma/gm/math
    _positional_embeddings.py                       faba7e31f845b424ae6827e74b3e01b409fca382
  vllm-project/vllm, vllm/model_executor/models
    mimo_v2_flash.py                                01ed47b4166b26251895a9c298352fcdb2385149
  NVIDIA-NeMo/Automodel, nemo_automodel/components/models
    step3p5/layers.py                               0d3163d21ed8739ba36fafcdba2b09d18746813c
    step3p5/model.py                                05e09029f39148cd79cebf7d0a022e07bcf0743f
Sizes of MiMo-V2's layers with windows are those that vLLM reads (swa_num_attention_heads, swa_head_dim,
swa_v_head_dim); transformers has twice the heads for keys there, and else the model's. Its sinks have
gradients here. Step 3.5's windows are those of masking_utils.py. Casts to fp32 are left out: all is fp64.

Elements of heads: these models turn element i with another half a head, or half of its turned part, away;
shardsim turns neighbours. So queries and keys are put in the models' order, behind norms whose weights are
in shardsim's; nothing else depends on that order.
"""

import torch
import torch.nn.functional as F
from torch import nn

import models
import transformers_models
from transformers_models import attention_mask, repeat_kv


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2:]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(x, inv_freq):
    """x [b, heads, s, d]: MiMo-V2's form, which turns the first elements and passes the rest."""
    position_ids = torch.arange(x.shape[-2], dtype=models.DTYPE)
    freqs = position_ids[:, None] * inv_freq[None, :]
    emb = torch.cat((freqs, freqs), dim=-1)
    cos, sin = emb.cos(), emb.sin()
    rotary_dim = cos.shape[-1]
    x_rot, x_pass = x[..., :rotary_dim], x[..., rotary_dim:]
    x_embed = (x_rot * cos) + (rotate_half(x_rot) * sin)
    return torch.cat([x_embed, x_pass], dim=-1)


def default_frequencies(base, dim):
    return 1.0 / (base ** (torch.arange(0, dim, 2, dtype=models.DTYPE) / dim))


def proportional_frequencies(base, head_dim, rope_proportion):
    """apply_rope, _compute_proportional_rope_parameters: some frequencies of the whole head, and zeros."""
    rope_angles = int(rope_proportion * head_dim // 2)
    inv_freq_rotated = 1.0 / (base ** (
        torch.arange(0, 2 * rope_angles, 2, dtype=models.DTYPE) / head_dim))
    nope_angles = head_dim // 2 - rope_angles
    return torch.cat((inv_freq_rotated, torch.zeros(nope_angles, dtype=models.DTYPE)), dim=0)


def eager_attention_forward(query, key, value, scaling, mask, sinks=None):
    groups = query.shape[1] // key.shape[1]
    key_states, value_states = repeat_kv(key, groups), repeat_kv(value, groups)
    attn_weights = torch.matmul(query, key_states.transpose(2, 3)) * scaling
    attn_weights = attn_weights + mask
    if sinks is not None:
        sinks = sinks.reshape(1, -1, 1, 1).expand(query.shape[0], -1, query.shape[-2], -1)
        attn_weights = torch.cat([attn_weights, sinks], dim=-1)
    attn_weights = attn_weights - attn_weights.max(dim=-1, keepdim=True).values
    probs = F.softmax(attn_weights, dim=-1)
    if sinks is not None:
        probs = probs[..., :-1]
    return torch.matmul(probs, value_states)


class Headed(transformers_models.Layered):
    """A model whose layers have heads of their own."""

    def first_of(self, *sizes):
        return next(size for size in sizes if size)

    def head_dim(self, name):
        return self.first_of(self.layer(name)["head_dim"], self.options["head_dim"])

    def rotary_dim(self, name):
        layer = self.layer(name)
        return self.first_of(layer["rotary_dim"], layer["head_dim"], self.options["rotary_dim"])

    def theta(self, name):
        return self.first_of(self.layer(name)["rope_theta"], self.options["rope_theta"])

    def to_halves(self, x, turned):
        return torch.cat((x[..., 0:turned:2], x[..., 1:turned:2], x[..., turned:]), dim=-1)

    def mask(self, name, x):
        return attention_mask(x.shape[1], self.layer(name))


class Gemma4(Headed):
    """Gemma4TextModel without embeddings of each layer, shared keys or experts."""

    def rms_norm(self, x, weight=None):
        """Gemma4RMSNorm; without a weight: with_scale is false."""
        mean_squared = x.pow(2).mean(-1, keepdim=True) + self.epsilon
        normed_output = x * torch.pow(mean_squared, -0.5)
        return normed_output if weight is None else normed_output * weight

    def norm(self, name, x):
        return self.rms_norm(x, self.w[name])

    def to_halves(self, x, turned):
        """Halves of the whole head, each of which begins with elements that turn."""
        rest = x[..., turned:]
        middle = rest.shape[-1] // 2
        return torch.cat((x[..., 0:turned:2], rest[..., :middle], x[..., 1:turned:2],
                          rest[..., middle:]), dim=-1)

    def attention(self, name, x):
        """Gemma4TextAttention.forward. shardsim's base is of frequencies over the part that turns."""
        head_dim, turned = self.head_dim(name), self.rotary_dim(name)
        base = self.theta(name) ** (head_dim / turned)
        inv_freq = proportional_frequencies(base, head_dim, turned / head_dim)

        def positioned(part, states):
            states = self.norm(f"{name}.attention.{part}_norm", states)
            return apply_rotary_pos_emb(self.to_halves(states, turned), inv_freq)

        query_states = models.heads_of(self.projected(name, "q", x), head_dim)
        query_states = positioned("q", query_states)
        key_states = models.heads_of(self.projected(name, "k", x), head_dim)
        has_v_proj = not self.layer(name)["keys_are_values"]
        value_states = (models.heads_of(self.projected(name, "v", x), head_dim) if has_v_proj
                        else key_states)
        key_states = positioned("k", key_states)
        value_states = self.rms_norm(value_states)
        attn_output = eager_attention_forward(query_states, key_states, value_states, 1.0,
                                              self.mask(name, x))
        return self.projected(name, "o", models.joined(attn_output))

    def mlp(self, block, x):
        gate, up, down = (self.w[f"blocks.{block}.mlp.{part}"] for part in ("gate", "up", "down"))
        act_fn = F.gelu(F.linear(x, gate), approximate="tanh")
        return F.linear(act_fn * F.linear(x, up), down)

    def logits(self, tokens):
        """Gemma4TextDecoderLayer.forward, between Gemma4TextScaledWordEmbedding and
        Gemma4ForCausalLM.forward."""
        table = self.w["embedding.tokens"]
        hidden_states = F.embedding(tokens, table) * self.options["hidden_size"]**0.5
        for block in range(self.options["num_layers"]):
            name = f"blocks.{block}"
            residual = hidden_states
            hidden_states = self.norm(f"{name}.norm1", hidden_states)
            hidden_states = self.attention(name, hidden_states)
            hidden_states = self.norm(f"{name}.output_norm1", hidden_states)
            hidden_states = residual + hidden_states
            residual = hidden_states
            hidden_states = self.norm(f"{name}.norm2", hidden_states)
            hidden_states = self.mlp(block, hidden_states)
            hidden_states = self.norm(f"{name}.output_norm2", hidden_states)
            hidden_states = residual + hidden_states
        logits = F.linear(self.norm("final_norm", hidden_states), table)
        logits = logits / self.options["final_logit_cap"]
        logits = torch.tanh(logits)
        return logits * self.options["final_logit_cap"]


def mimo_router(hidden_states, weight, bias, config):
    """MiMoV2FlashTopkRouter.forward and route_tokens_to_experts, for one group of experts."""
    router_logits = F.linear(hidden_states, weight).sigmoid()
    scores_for_choice = router_logits + bias
    topk_indices = torch.topk(scores_for_choice, k=config["num_experts_per_token"], dim=-1,
                              sorted=False)[1]
    topk_weights = router_logits.gather(1, topk_indices)
    denominator = topk_weights.sum(dim=-1, keepdim=True) + 1e-20
    topk_weights = topk_weights / denominator
    return topk_indices, topk_weights * config["moe_router_scaling_factor"]


class MiMoV2(transformers_models.Biased, Headed):
    choice = staticmethod(mimo_router)

    def attention(self, name, x):
        """MiMoV2FlashAttention.forward."""
        head_dim, turned = self.head_dim(name), self.rotary_dim(name)
        v_head_dim = self.first_of(self.layer(name)["value_head_dim"], self.options["value_head_dim"])
        inv_freq = default_frequencies(self.theta(name), turned)
        query_states = models.heads_of(self.projected(name, "q", x), head_dim)
        key_states = models.heads_of(self.projected(name, "k", x), head_dim)
        value_states = models.heads_of(self.projected(name, "v", x), v_head_dim)
        value_states = value_states * self.options["value_scale"]
        query_states, key_states = (apply_rotary_pos_emb(self.to_halves(states, turned), inv_freq)
                                    for states in (query_states, key_states))
        attn_output = eager_attention_forward(query_states, key_states, value_states, head_dim**-0.5,
                                              self.mask(name, x), self.w.get(name + ".attention.sinks"))
        return self.projected(name, "o", models.joined(attn_output))

    def experts(self, name, x):
        """MiMoV2FlashSparseMoeBlock.forward with MiMoV2FlashNaiveMoe.forward."""
        top_k_index, top_k_weights = self.router(name, x)
        number = self.options["num_experts"]
        final_hidden_states = torch.zeros_like(x)
        expert_mask = torch.nn.functional.one_hot(top_k_index, num_classes=number).permute(2, 1, 0)
        for expert_idx in range(number):
            top_k_pos, token_idx = torch.where(expert_mask[expert_idx])
            current_state = x[token_idx]
            gate, up, down = (self.w[f"{name}.experts.{part}"][expert_idx]
                              for part in ("gate", "up", "down"))
            current_hidden_states = (F.silu(nn.functional.linear(current_state, gate))
                                     * nn.functional.linear(current_state, up))
            current_hidden_states = nn.functional.linear(current_hidden_states, down)
            current_hidden_states = (current_hidden_states
                                     * top_k_weights[token_idx, top_k_pos, None])
            final_hidden_states = final_hidden_states.index_add(0, token_idx, current_hidden_states)
        return final_hidden_states


class Step3p5(Headed):
    def norm(self, name, x):
        """Step3p5RMSNorm.forward."""
        variance = x.pow(2).mean(dim=-1, keepdim=True)
        normed = x * torch.rsqrt(variance + self.epsilon)
        return normed * (self.w[name] + 1)

    def attention(self, name, x):
        """Step3p5Attention.forward, with Step3p5RotaryEmbedding."""
        head_dim, turned = self.head_dim(name), self.rotary_dim(name)
        q, k, v = (models.heads_of(self.projected(name, part, x), head_dim) for part in "qkv")
        q = self.norm(name + ".attention.q_norm", q)
        k = self.norm(name + ".attention.k_norm", k)
        inv_freq = default_frequencies(self.theta(name), turned)
        q, k = (apply_rotary_pos_emb(self.to_halves(each, turned), inv_freq) for each in (q, k))
        gate_states = F.linear(x, self.w[name + ".attention.w_gate"])
        out = eager_attention_forward(q, k, v, head_dim**-0.5, self.mask(name, x))
        out = out.transpose(1, 2)  # [b, s, heads, d]
        out = out * gate_states.unsqueeze(-1).sigmoid()
        return self.projected(name, "o", out.flatten(2))
