"""Nemotron-H, with experts on latents, and Falcon-H1, with attention beside Mamba-2, in PyTorch, followed
line by line, on weights of a state dump.

The files of huggingface/transformers, each with the commit at which it was read:
  models/nemotron_h/modeling_nemotron_h.py  008d9e9577b0eb0149aa6bb0c44da582b10e0b6e
  models/zamba2/modeling_zamba2.py          00511f5df3b63c48b31496072ec35d6ff3ffa6c6
  models/falcon_h1/modeling_falcon_h1.py    001f85b38fb432858ace93f18622f07cec46d874
Mamba-2 is FalconH1Mixer's; NemotronHMamba2Mixer has the same operations, with axes in another order, and
Zamba2's norm. Falcon-H1's multipliers come from the case, those of Mamba-2's input and of attention's as the
fields that they are part of; its limits of time steps are (0, inf), and Nemotron-H's time_step_min is 0. Casts to fp32 are left out: all is fp64.
"""

import torch
import torch.nn.functional as F

import models
import transformers_heads
import transformers_models


def squared_relu(x):
    return torch.square(F.relu(x))


def pad_tensor_by_size(input_tensor, pad_size):
    pad_shape = ((0, 0, 0, 0, 0, pad_size, 0, 0) if len(input_tensor.shape) == 4
                 else (0, 0, 0, pad_size, 0, 0))
    return torch.nn.functional.pad(input_tensor, pad_shape, mode="constant", value=0)


def reshape_into_chunks(input_tensor, pad_size, chunk_size):
    input_tensor = pad_tensor_by_size(input_tensor, pad_size)
    return input_tensor.reshape(input_tensor.shape[0], -1, chunk_size, *input_tensor.shape[2:])


def segment_sum(input_tensor):
    chunk_size = input_tensor.size(-1)
    input_tensor = input_tensor[..., None].expand(*input_tensor.size(), chunk_size)
    mask = torch.tril(torch.ones(chunk_size, chunk_size, dtype=torch.bool), diagonal=-1)
    input_tensor = input_tensor.masked_fill(~mask, 0)
    tensor_segsum = torch.cumsum(input_tensor, dim=-2)
    mask = torch.tril(torch.ones(chunk_size, chunk_size, dtype=torch.bool), diagonal=0)
    return tensor_segsum.masked_fill(~mask, -torch.inf)


def chunked_scan(hidden_states, dt, A, B, C, chunk_size):
    """FalconH1Mixer.torch_forward from the padding on, without the skip by D: x, B and C
    [b, s, heads, ...], dt [b, s, heads], A [heads]."""
    batch_size, seq_len, num_heads, head_dim = hidden_states.shape
    pad_size = (chunk_size - seq_len % chunk_size) % chunk_size
    hidden_states = hidden_states * dt[..., None]
    A = A * dt
    hidden_states, A, B, C = (reshape_into_chunks(t, pad_size, chunk_size)
                              for t in (hidden_states, A, B, C))
    A = A.permute(0, 3, 1, 2)
    A_cumsum = torch.cumsum(A, dim=-1)
    L = torch.exp(segment_sum(A))
    G_intermediate = C[:, :, :, None, :, :] * B[:, :, None, :, :, :]
    G = G_intermediate.sum(dim=-1)
    M_intermediate = G[..., None] * L.permute(0, 2, 3, 4, 1)[..., None]
    M = M_intermediate.sum(dim=-1)
    Y_diag = (M[..., None] * hidden_states[:, :, None]).sum(dim=3)
    decay_states = torch.exp(A_cumsum[:, :, :, -1:] - A_cumsum)
    B_decay = B * decay_states.permute(0, -2, -1, 1)[..., None]
    states = (B_decay[..., None, :] * hidden_states[..., None]).sum(dim=2)
    previous_states = torch.zeros_like(states[:, :1])
    states = torch.cat([previous_states, states], dim=1)
    decay_chunk = torch.exp(segment_sum(F.pad(A_cumsum[:, :, :, -1], (1, 0))))
    decay_chunk = decay_chunk.transpose(1, 3)
    new_states = (decay_chunk[..., None, None] * states[:, :, None, ...]).sum(dim=1)
    states = new_states[:, :-1]
    state_decay_out = torch.exp(A_cumsum)
    C_times_states = C[..., None, :] * states[:, :, None, ...]
    state_decay_out_permuted = state_decay_out.permute(0, 2, 3, 1)
    Y_off = C_times_states.sum(-1) * state_decay_out_permuted[..., None]
    y = Y_diag + Y_off
    y = y.reshape(batch_size, -1, num_heads, head_dim)
    return y[:, :seq_len, :, :]


class Mamba2(transformers_heads.Headed):
    """A model with layers of Mamba-2."""

    def mamba(self, name, input_states):
        """FalconH1Mixer.torch_forward."""
        w = {part: self.w[f"{name}.mamba.{part}"] for part in (
            "w_in", "convolution", "convolution_bias", "a_log", "dt_bias", "d_skip", "wo")}
        num_heads, head_dim, n_groups, ssm_state_size = (self.options["mamba_" + size] for size in (
            "num_heads", "head_dim", "num_groups", "state_size"))
        intermediate_size, groups_state = num_heads * head_dim, n_groups * ssm_state_size
        conv_dim = intermediate_size + 2 * groups_state
        batch_size, seq_len, _ = input_states.shape
        projected_states = F.linear(input_states, w["w_in"])
        projected_states = projected_states * self.mup_vector()
        gate, hidden_states_B_C, dt = projected_states.split(
            [intermediate_size, conv_dim, num_heads], dim=-1)
        conv1d = F.conv1d(hidden_states_B_C.transpose(1, 2), w["convolution"][:, None, :],
                          w["convolution_bias"], padding=w["convolution"].shape[-1] - 1,
                          groups=conv_dim)
        hidden_states_B_C = F.silu(conv1d[..., :seq_len].transpose(1, 2))
        hidden_states, B, C = torch.split(
            hidden_states_B_C, [intermediate_size, groups_state, groups_state], dim=-1)
        A = -torch.exp(w["a_log"])
        dt = F.softplus(dt + w["dt_bias"])
        hidden_states = hidden_states.reshape(batch_size, seq_len, -1, head_dim)
        B, C = (each.reshape(batch_size, seq_len, -1, ssm_state_size).repeat_interleave(
            num_heads // n_groups, dim=2, output_size=num_heads) for each in (B, C))
        D_residual = w["d_skip"][..., None] * hidden_states
        y = chunked_scan(hidden_states, dt, A, B, C, self.options["mamba_chunk_size"])
        y = y + D_residual
        y = y.reshape(batch_size, seq_len, -1)
        scan_output = self.gated_scan(name, y, gate)
        return F.linear(scan_output, w["wo"])

    def mup_vector(self):
        """compute_mup_vector of Falcon-H1."""
        num_heads, head_dim, n_groups, ssm_state_size = (self.options["mamba_" + size] for size in (
            "num_heads", "head_dim", "num_groups", "state_size"))
        intermediate_size, groups_time_state_size = num_heads * head_dim, n_groups * ssm_state_size
        zxbcdt_multipliers = [self.options[f"mamba_{part}_scale"] for part in ("z", "x", "b", "c", "dt")]
        vector_shape = 2 * intermediate_size + 2 * groups_time_state_size + num_heads
        mup_vector = torch.ones(1, 1, vector_shape, dtype=models.DTYPE)
        mup_vector[:, :, :intermediate_size] *= zxbcdt_multipliers[0]
        mup_vector[:, :, intermediate_size:2 * intermediate_size] *= zxbcdt_multipliers[1]
        mup_vector[:, :, 2 * intermediate_size:2 * intermediate_size + groups_time_state_size] *= (
            zxbcdt_multipliers[2])
        mup_vector[:, :, 2 * intermediate_size + groups_time_state_size:
                   2 * intermediate_size + 2 * groups_time_state_size] *= zxbcdt_multipliers[3]
        mup_vector[:, :, 2 * intermediate_size + 2 * groups_time_state_size:] *= zxbcdt_multipliers[4]
        return mup_vector


class NemotronH(transformers_models.Biased, Mamba2):
    """NemotronHModel with blocks of the kinds mamba, attention and moe."""

    def gated_scan(self, name, hidden_states, gate):
        """Zamba2RMSNormGated.forward."""
        hidden_states = hidden_states * F.silu(gate)
        *prefix_dims, last_dim = hidden_states.shape
        group_count = self.options["mamba_num_groups"]
        hidden_states_group = hidden_states.view(*prefix_dims, group_count, last_dim // group_count)
        variance = hidden_states_group.pow(2).mean(-1, keepdim=True)
        hidden_states_group = hidden_states_group * torch.rsqrt(variance + self.epsilon)
        hidden_states = hidden_states_group.view(*prefix_dims, last_dim)
        return self.w[name + ".mamba.norm"] * hidden_states

    def choice(self, hidden_states, weight, bias, config):
        """NemotronHTopkRouter.forward and NemotronHMoE.route_tokens_to_experts, for one group."""
        router_logits = F.linear(hidden_states, weight)
        router_logits = router_logits.sigmoid()
        router_logits_for_choice = router_logits + bias
        topk_indices = torch.topk(router_logits_for_choice, k=config["num_experts_per_token"], dim=-1,
                                  sorted=False)[1]
        topk_weights = router_logits.gather(1, topk_indices)
        denominator = topk_weights.sum(dim=-1, keepdim=True) + 1e-20
        topk_weights = topk_weights / denominator
        return topk_indices, topk_weights * config["moe_router_scaling_factor"]

    def attention(self, name, x):
        """NemotronHAttention.forward, which has no positions."""
        query_states, key_states, value_states = (
            models.heads_of(self.projected(name, part, x), self.head_size) for part in "qkv")
        attn_output = transformers_heads.eager_attention_forward(
            query_states, key_states, value_states, self.head_size**-0.5, self.mask(name, x))
        return self.projected(name, "o", models.joined(attn_output))

    def experts(self, name, x):
        """NemotronHMoE.forward with NemotronHExperts.forward and NemotronHMLP.forward."""
        residuals = x
        topk_indices, topk_weights = self.router(name, x)
        hidden_states = F.linear(x, self.w[name + ".latents.down"])  # fc1_latent_proj
        number = self.options["num_experts"]
        up_proj, down_proj = self.w[name + ".experts.up"], self.w[name + ".experts.down"]
        final_hidden_states = torch.zeros_like(hidden_states)
        expert_mask = torch.nn.functional.one_hot(topk_indices, num_classes=number).permute(2, 1, 0)
        for expert_idx in range(number):
            top_k_pos, token_idx = torch.where(expert_mask[expert_idx])
            current_state = hidden_states[token_idx]
            current_hidden_states = F.linear(current_state, up_proj[expert_idx])
            current_hidden_states = squared_relu(current_hidden_states)
            current_hidden_states = F.linear(current_hidden_states, down_proj[expert_idx])
            current_hidden_states = current_hidden_states * topk_weights[token_idx, top_k_pos, None]
            final_hidden_states = final_hidden_states.index_add(0, token_idx, current_hidden_states)
        hidden_states = F.linear(final_hidden_states, self.w[name + ".latents.up"])  # fc2_latent_proj
        shared_up, shared_down = (self.w[f"{name}.shared_experts.{part}"] for part in ("up", "down"))
        return hidden_states + F.linear(squared_relu(F.linear(residuals, shared_up)), shared_down)

    def logits(self, tokens):
        """NemotronHBlock.forward: each has one norm."""
        hidden_states = self.embedded(tokens)
        for block in range(self.options["num_layers"]):
            name = f"blocks.{block}"
            residual = hidden_states
            hidden_states = self.norm(f"{name}.norm1", hidden_states)
            mixer = self.layer(name)["mixer"]
            if mixer == "mamba":
                hidden_states = self.mamba(name, hidden_states)
            elif mixer == "attention":
                hidden_states = self.attention(name, hidden_states)
            else:
                hidden_states = self.mlp(block, hidden_states)
            hidden_states = residual + hidden_states
        return F.linear(self.norm("final_norm", hidden_states), self.w["head"])


class FalconH1(Mamba2):
    def gated_scan(self, _, y, gate):
        """With mamba_rms_norm false."""
        return y * F.silu(gate)

    def attention(self, name, x):
        """FalconH1Attention.forward."""
        query_states, key_states, value_states = (
            models.heads_of(self.projected(name, part, x), self.head_size) for part in "qkv")
        key_multiplier = self.options["attention_scale"] * self.head_size**0.5
        key_states = key_states * key_multiplier
        inv_freq = transformers_heads.default_frequencies(self.options["rope_theta"], self.head_size)
        query_states, key_states = (
            transformers_heads.apply_rotary_pos_emb(self.to_halves(states, self.head_size), inv_freq)
            for states in (query_states, key_states))
        attn_output = transformers_heads.eager_attention_forward(
            query_states, key_states, value_states, self.head_size**-0.5, self.mask(name, x))
        return self.projected(name, "o", models.joined(attn_output))

    def mlp(self, block, x):
        """FalconH1MLP.forward."""
        gate, up, down = (self.w[f"blocks.{block}.mlp.{part}"] for part in ("gate", "up", "down"))
        gate_bias, up_bias, down_bias = (
            self.w[f"blocks.{block}.mlp.{part}.bias"] for part in ("gate", "up", "down"))
        gate_multiplier, down_multiplier = (
            self.options[f"mlp_{part}_scale"] for part in ("gate", "output"))
        y = F.linear(x, up, up_bias) * F.silu(F.linear(x, gate, gate_bias) * gate_multiplier)
        return F.linear(y, down, down_bias) * down_multiplier

    def logits(self, tokens):
        """FalconH1Model.forward and FalconH1DecoderLayer.forward."""
        hidden_states = self.embedded(tokens) * self.options["embedding_scale"]
        for block in range(self.options["num_layers"]):
            name = f"blocks.{block}"
            residual = hidden_states
            hidden_states = self.norm(f"{name}.norm1", hidden_states)
            mamba_hidden_states = self.mamba(name, hidden_states)
            mamba_hidden_states = mamba_hidden_states * self.options["mamba_output_scale"]
            attention_hidden_states = self.attention(name, hidden_states)
            # attn_out_multiplier; attention_in_multiplier is 1.
            attention_hidden_states = attention_hidden_states * self.options["value_scale"]
            hidden_states = mamba_hidden_states + attention_hidden_states
            hidden_states = residual + hidden_states
            residual = hidden_states
            hidden_states = self.norm(f"{name}.norm2", hidden_states)
            hidden_states = self.mlp(block, hidden_states)
            hidden_states = residual + hidden_states
        logits = F.linear(self.norm("final_norm", hidden_states), self.w["head"])
        return logits * self.options["logit_scale"]  # lm_head_multiplier
