"""Parts of huggingface/transformers in PyTorch, followed line by line, on weights of a state dump.

The files, each with the commit at which it was read:
  models/deepseek_v3/modeling_deepseek_v3.py    f5a9ec512fa9fe69e51ea0c6388c68d50de567b3
  models/ernie4_5_moe/modeling_ernie4_5_moe.py  a0699c971daff96403489086fcfd07469d20b17f
  models/gpt_oss/modeling_gpt_oss.py            6edf5b311854175ff83c59179b3360beca1ceffc
  models/llama4/modeling_llama4.py              63210d0e3b74c2119b7998ff65bc6a2729283626
Llama4TextMoe.forward multiplies by scores [tokens, experts] in the order [experts, tokens]; later versions
transpose them first (router_scores.transpose(0, 1).reshape(-1, 1)), and so does this.
Casts to fp32 are left out: all is fp64. Latent attention and the clamp of GPT-OSS's SwiGLU are not part
of this: attention is Llama's where none is named, and experts are SwiGLU. The blocks around these parts
are those of models.py, whose Llama they inherit.
"""

import torch
import torch.nn.functional as F
from torch import nn

import models


def deepseek_v3_router(hidden_states, weight, bias, config):
    """DeepseekV3TopkRouter.forward, with get_topk_indices."""
    top_k, number = config["num_experts_per_token"], config["num_experts"]
    n_group, topk_group = config["moe_router_num_groups"], config["moe_router_group_topk"]
    router_logits = F.linear(hidden_states, weight)
    scores = router_logits.sigmoid()
    with torch.no_grad():
        scores_for_choice = scores.view(-1, number) + bias.unsqueeze(0)
        group_scores = (scores_for_choice.view(-1, n_group, number // n_group)
                        .topk(2, dim=-1)[0].sum(dim=-1))
        group_idx = torch.topk(group_scores, k=topk_group, dim=-1, sorted=False)[1]
        group_mask = torch.zeros_like(group_scores)
        group_mask.scatter_(1, group_idx, 1)
        score_mask = (group_mask.unsqueeze(-1).expand(-1, n_group, number // n_group)
                      .reshape(-1, number))
        scores_for_choice = scores_for_choice.masked_fill(~score_mask.bool(), 0.0)
        topk_indices = torch.topk(scores_for_choice, k=top_k, dim=-1, sorted=False)[1]
    topk_weights = scores.gather(1, topk_indices)
    denominator = topk_weights.sum(dim=-1, keepdim=True) + 1e-20
    topk_weights = topk_weights / denominator
    topk_weights = topk_weights * config["moe_router_scaling_factor"]
    return topk_indices, topk_weights


def ernie_router(hidden_states, weight, bias, config):
    """Ernie4_5_MoeSparseMoeBlock.forward up to the experts; moe_norm_min as its configuration has it."""
    router_logits = F.linear(hidden_states, weight)
    routing_weights = F.softmax(router_logits, dim=1)
    _, selected_experts = torch.topk(routing_weights + bias, config["num_experts_per_token"], dim=-1)
    routing_weights = torch.gather(routing_weights, dim=-1, index=selected_experts)
    routing_weights = routing_weights / torch.clamp(routing_weights.sum(dim=-1, keepdim=True),
                                                    min=1e-12)
    return selected_experts, routing_weights


def gpt_oss_router(hidden_states, weight, bias, top_k):
    """GptOssTopKRouter.forward: scores [tokens, experts], 0 where an expert is not chosen."""
    router_logits = F.linear(hidden_states, weight, bias)
    router_top_value, router_indices = torch.topk(router_logits, top_k, dim=-1)
    router_top_value = torch.nn.functional.softmax(router_top_value, dim=1)
    router_scores = torch.zeros_like(router_logits).scatter_(1, router_indices, router_top_value)
    return router_scores, router_indices


def llama4_router(hidden_states, weight, top_k):
    """Llama4Router.forward: scores [tokens, experts]."""
    router_logits = F.linear(hidden_states, weight)
    router_top_value, router_indices = torch.topk(router_logits, top_k, dim=1)
    router_scores = torch.full_like(router_logits, float("-inf")).scatter_(1, router_indices,
                                                                           router_top_value)
    return torch.nn.functional.sigmoid(router_scores)


def repeat_kv(hidden_states, n_rep):
    batch, num_key_value_heads, slen, head_dim = hidden_states.shape
    hidden_states = hidden_states[:, :, None, :, :].expand(batch, num_key_value_heads, n_rep, slen,
                                                           head_dim)
    return hidden_states.reshape(batch, num_key_value_heads * n_rep, slen, head_dim)


def attention_mask(length, layer):
    """0 where a query sees a key and -inf elsewhere, as masking_utils.py has it: sliding_window_overlay,
    kv > q - window; chunked_overlay, kv // chunk == q // chunk."""
    q, kv = torch.arange(length)[:, None], torch.arange(length)[None, :]
    seen = kv <= q
    if layer.get("attention") == "sliding":
        seen &= kv > q - layer["window_size"]
    if layer.get("attention") == "chunked":
        seen &= kv // layer["chunk_size"] == q // layer["chunk_size"]
    return torch.zeros(length, length, dtype=models.DTYPE).masked_fill(~seen, -torch.inf)


class Biased(models.Llama):
    """A model whose router has a bias of the choice, which no file has: it starts at 0 and follows the
    loads after each step (get_updated_expert_bias in NVIDIA/Megatron-LM, moe_utils.py, d98e8a6)."""

    def __init__(self, model, weights):
        super().__init__(model, weights)
        self.bias, self.loads = {}, {}

    def router(self, name, x):
        number = self.options["num_experts"]
        bias = self.bias.setdefault(name, torch.zeros(number, dtype=models.DTYPE))
        chosen, weights = self.choice(x, self.w[name + ".router"], bias, self.options)
        self.loads[name] = torch.bincount(chosen.flatten(), minlength=number).to(models.DTYPE)
        return chosen, weights

    def end_step(self):
        for name, loads in self.loads.items():
            rate = self.options["moe_router_bias_update_rate"]
            self.bias[name] = self.bias[name] + rate * torch.sign(loads.mean() - loads)

    def experts(self, name, x):
        """DeepseekV3MoE.forward and .moe; ERNIE's sums are the same."""
        topk_indices, topk_weights = self.router(name, x)
        number = self.options["num_experts"]
        final_hidden_states = torch.zeros_like(x)
        expert_mask = torch.nn.functional.one_hot(topk_indices, num_classes=number).permute(2, 0, 1)
        for expert_idx in range(number):
            token_indices, weight_indices = torch.where(expert_mask[expert_idx])
            if token_indices.numel() > 0:
                expert_weights = topk_weights[token_indices, weight_indices]
                expert_output = self.gated(x[token_indices], *(
                    self.w[f"{name}.experts.{part}"][expert_idx] for part in ("gate", "up", "down")))
                weighted_output = expert_output * expert_weights.unsqueeze(-1)
                final_hidden_states = final_hidden_states.index_add(0, token_indices, weighted_output)
        return final_hidden_states + self.gated(x, *(self.w[f"{name}.shared_experts.{part}"]
                                                     for part in ("gate", "up", "down")))


class DeepseekV3(Biased):
    choice = staticmethod(deepseek_v3_router)


class Ernie(Biased):
    choice = staticmethod(ernie_router)


class Layered(models.Llama):
    """A model whose layers differ."""

    def layer(self, name):
        layers = [each for each in self.options["layers"] for _ in range(each["repeats"])]
        return layers[int(name.split(".")[1]) % len(layers)]

    def projected(self, name, part, x):
        name = f"{name}.attention.w{part}"
        return F.linear(x, self.w[name], self.w.get(f"{name.replace('.w', '.b')}"))

    def end_step(self):
        pass


class GptOss(Layered):
    def halves(self, x):
        """From neighbours, which shardsim turns, to halves: element 2 i to i, 2 i + 1 to i + d / 2."""
        return torch.cat((x[..., 0::2], x[..., 1::2]), dim=-1)

    def attention(self, name, x):
        """GptOssAttention.forward with _apply_rotary_emb and eager_attention_forward."""
        length = x.shape[1]
        query, key, value = (models.heads_of(self.projected(name, part, x), self.head_size)
                             for part in "qkv")
        query, key = self.halves(query), self.halves(key)
        dim = self.head_size
        inv_freq = 1.0 / (self.options["rope_theta"] ** (
            torch.arange(0, dim, 2, dtype=models.DTYPE) / dim))
        freqs = torch.arange(length, dtype=models.DTYPE)[:, None] * inv_freq[None, :]
        cos, sin = freqs.cos(), freqs.sin()

        def rotary(states):
            first_half, second_half = torch.chunk(states, 2, dim=-1)
            first = first_half * cos - second_half * sin
            second = second_half * cos + first_half * sin
            return torch.cat((first, second), dim=-1)

        query, key = rotary(query), rotary(key)
        groups = query.shape[1] // key.shape[1]
        key_states, value_states = repeat_kv(key, groups), repeat_kv(value, groups)
        attn_weights = torch.matmul(query, key_states.transpose(2, 3)) * dim**-0.5
        attn_weights = attn_weights + attention_mask(length, self.layer(name))
        sinks = self.w[name + ".attention.sinks"].reshape(1, -1, 1, 1).expand(
            query.shape[0], -1, query.shape[-2], -1)
        combined_logits = torch.cat([attn_weights, sinks], dim=-1)
        combined_logits = combined_logits - combined_logits.max(dim=-1, keepdim=True).values
        probs = F.softmax(combined_logits, dim=-1)
        scores = probs[..., :-1]
        attn_output = torch.matmul(scores, value_states)
        return self.projected(name, "o", models.joined(attn_output))

    def experts(self, name, x):
        """GptOssMLP.forward with the loop of GptOssExperts.forward."""
        routing_weights, router_indices = gpt_oss_router(
            x, self.w[name + ".router"], self.w[name + ".router.bias"],
            self.options["num_experts_per_token"])
        number = self.options["num_experts"]
        next_states = torch.zeros_like(x)
        expert_mask = torch.nn.functional.one_hot(router_indices, num_classes=number).permute(2, 1, 0)
        w = {part: (self.w[f"{name}.experts.{part}"], self.w[f"{name}.experts.{part}.bias"])
             for part in ("gate", "up", "down")}
        for expert_idx in range(number):
            _, token_idx = torch.where(expert_mask[expert_idx])
            current_state = x[token_idx]
            gate, up = (F.linear(current_state, w[part][0][expert_idx], w[part][1][expert_idx])
                        for part in ("gate", "up"))
            out = F.linear(F.silu(gate) * up, w["down"][0][expert_idx], w["down"][1][expert_idx])
            weighted_output = out * routing_weights[token_idx, expert_idx, None]
            next_states = next_states.index_add(0, token_idx, weighted_output)
        return next_states


class Llama4(Layered):
    def l2_norm(self, x):
        """Llama4TextL2Norm."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon)

    def attention(self, name, x):
        """Llama4TextAttention.forward, with attn_temperature_tuning where there is a scale."""
        length = x.shape[1]
        query_states, key_states, value_states = (
            models.heads_of(self.projected(name, part, x), self.head_size) for part in "qkv")
        if self.layer(name).get("rotary", True):
            theta = self.options["rope_theta"]  # apply_rotary_emb's complex pairs.
            query_states = self.l2_norm(models.rotated(query_states, theta))
            key_states = self.l2_norm(models.rotated(key_states, theta))
        elif self.options["query_temperature_scale"] > 0:
            cache_position = torch.arange(length, dtype=models.DTYPE)
            attn_scales = torch.log1p(
                torch.floor((cache_position + 1.0) / self.options["query_temperature_floor"])
            ) * self.options["query_temperature_scale"] + 1.0
            query_states = query_states * attn_scales.view(1, 1, length, 1)  # [b, heads, s, d]
        groups = query_states.shape[1] // key_states.shape[1]
        key_states, value_states = repeat_kv(key_states, groups), repeat_kv(value_states, groups)
        attn_weights = torch.matmul(query_states, key_states.transpose(2, 3)) * self.head_size**-0.5
        attn_weights = attn_weights + attention_mask(length, self.layer(name))
        attn_weights = nn.functional.softmax(attn_weights, dim=-1)
        return self.projected(name, "o", models.joined(torch.matmul(attn_weights, value_states)))

    def experts(self, name, x):
        """Llama4TextMoe.forward with Llama4TextExperts.forward: every expert sees every token, times its
        score."""
        number, hidden = self.options["num_experts"], x.shape[-1]
        router_scores = llama4_router(x, self.w[name + ".router"],
                                      self.options["num_experts_per_token"])
        routed_in = x.repeat(number, 1)
        routed_in = routed_in * router_scores.transpose(0, 1).reshape(-1, 1)
        rows = routed_in.view(number, -1, hidden)
        gate, up = (torch.bmm(rows, self.w[f"{name}.experts.{part}"].transpose(1, 2))
                    for part in ("gate", "up"))
        routed_out = torch.bmm(up * F.silu(gate), self.w[f"{name}.experts.down"].transpose(1, 2))
        out = self.gated(x, *(self.w[f"{name}.shared_experts.{part}"]
                              for part in ("gate", "up", "down")))
        return out + routed_out.reshape(number, -1, hidden).sum(dim=0)
