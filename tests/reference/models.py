"""GPT-2, Llama, Qwen3 and Llama with experts in PyTorch, from this project's pages and papers.

Weights and tokens come from a state dump. PyTorch supplies derivatives, optimizers and clipping.
"""

import math

import torch
import torch.nn.functional as F

import muon

DTYPE = torch.float64


def tensor_of(dumped):
    values = torch.tensor(dumped.values(), dtype=DTYPE if dumped.dtype == "F64" else torch.int64)
    return values.reshape(dumped.shape)


def causal_attention(q, k, v):
    """q [b, heads, s, d], k and v [b, groups, s, d]: consecutive heads share a group."""
    repeats = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(repeats, dim=1)
    v = v.repeat_interleave(repeats, dim=1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    length = q.shape[-2]
    later = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)
    return torch.softmax(scores.masked_fill(later, -math.inf), dim=-1) @ v


def heads_of(x, head_size):
    batch, length, width = x.shape
    return x.reshape(batch, length, width // head_size, head_size).transpose(1, 2)


def joined(x):
    batch, heads, length, head_size = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * head_size)


def rotated(x, theta):
    """Meta's layout: the pair (2 i, 2 i + 1) is a complex number, turned by position * theta^(-2i/d)."""
    length, head_size = x.shape[-2:]
    frequencies = theta ** (-torch.arange(0, head_size, 2, dtype=DTYPE) / head_size)
    angles = torch.outer(torch.arange(length, dtype=DTYPE), frequencies)
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], head_size // 2, 2).contiguous())
    return torch.view_as_real(pairs * turns).reshape(x.shape)


class Model:
    """`model`: the model of a resolved scenario. `weights`: by name, leaves that need gradients."""

    def __init__(self, model, weights):
        self.options = model
        self.w = weights
        self.head_size = model["head_dim"]
        self.epsilon = model["norm_epsilon"]
        self.balance = []  # The auxiliary losses of the last forward, by layer.

    def logits(self, tokens):
        self.balance = []
        x = self.embedded(tokens)
        for block in range(self.options["num_layers"]):
            name = f"blocks.{block}"
            x = x + self.attention(name, self.norm(f"{name}.norm1", x))
            x = x + self.mlp(block, self.norm(f"{name}.norm2", x))
        head = "head" if "head" in self.w else "embedding.tokens"
        return F.linear(self.norm("final_norm", x), self.w[head])


class Gpt2(Model):
    def embedded(self, tokens):
        positions = self.w["embedding.positions"][:tokens.shape[1]]
        return F.embedding(tokens, self.w["embedding.tokens"]) + positions

    def norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.w[name + ".weight"], self.w[name + ".bias"],
                            self.epsilon)

    def linear(self, name, x):
        return F.linear(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def attention(self, name, x):
        width = x.shape[-1]
        qkv = self.linear(name + ".attention.qkv", x)
        rest = (qkv.shape[-1] - width) // 2
        q, k, v = (heads_of(part, self.head_size) for part in qkv.split([width, rest, rest], dim=-1))
        return self.linear(name + ".attention.out", joined(causal_attention(q, k, v)))

    def mlp(self, block, x):
        name = f"blocks.{block}.mlp"
        return self.linear(name + ".down", F.gelu(self.linear(name + ".up", x), approximate="tanh"))


class Llama(Model):
    def embedded(self, tokens):
        return F.embedding(tokens, self.w["embedding.tokens"])

    def norm(self, name, x):
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.epsilon) * self.w[name]

    def attention(self, name, x):
        q, k, v = (heads_of(F.linear(x, self.w[f"{name}.attention.{each}"]), self.head_size)
                   for each in ("wq", "wk", "wv"))
        if self.options["query_key_norm"] == "per_head":
            # Qwen3Attention of huggingface/transformers, models/qwen3/modeling_qwen3.py: RMS norm of
            # the last dimension, after the split into heads and before rotary positions.
            q, k = self.norm(name + ".attention.q_norm", q), self.norm(name + ".attention.k_norm", k)
        theta = self.options["rope_theta"]
        mixed = causal_attention(rotated(q, theta), rotated(k, theta), v)
        return F.linear(joined(mixed), self.w[name + ".attention.wo"])

    def gated(self, x, gate, up, down):
        return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)

    def mlp(self, block, x):
        name = f"blocks.{block}"
        if f"{name}.router" in self.w:
            return self.experts(name, x.reshape(-1, x.shape[-1])).reshape(x.shape)
        return self.gated(x, *(self.w[f"{name}.mlp.{part}"] for part in ("gate", "up", "down")))

    def experts(self, name, x):
        """x [tokens, h]: the tokens of a microbatch, which share the capacity and the auxiliary loss."""
        moe = self.options
        number, per_token = moe["num_experts"], moe["num_experts_per_token"]
        logits = F.linear(x, self.w[name + ".router"])
        best, chosen = logits.topk(per_token, dim=-1)
        gates = torch.softmax(best, dim=-1)  # Only the chosen logits.
        used = F.one_hot(chosen, number)  # [tokens, slots, experts]
        shares = used.sum(dim=(0, 1)).to(DTYPE) / chosen.numel()
        means = torch.softmax(logits, dim=-1).mean(dim=0)
        self.balance.append(moe["moe_aux_loss_coeff"] * number * (shares * means).sum())
        y = torch.zeros_like(x)
        for expert in range(number):
            tokens, slots = (chosen == expert).nonzero(as_tuple=True)  # In token order.
            taken = slice(self.capacity(len(x)))
            tokens, slots = tokens[taken], slots[taken]
            out = self.gated(x[tokens], *(self.w[f"{name}.experts.{part}"][expert]
                                          for part in ("gate", "up", "down")))
            y = y.index_add(0, tokens, out * gates[tokens, slots].unsqueeze(-1))
        if f"{name}.shared_experts.gate" in self.w:
            y = y + self.gated(x, *(self.w[f"{name}.shared_experts.{part}"]
                                    for part in ("gate", "up", "down")))
        return y

    def capacity(self, tokens):
        """The rows that an expert takes; all rows if no token is dropped."""
        moe = self.options
        if moe["moe_capacity_factor"] == 0:
            return tokens
        fair = tokens * moe["num_experts_per_token"] / moe["num_experts"]
        return min(tokens, math.ceil(fair * moe["moe_capacity_factor"]))


FAMILIES = {"gpt2": Gpt2, "llama": Llama}


def optimizer_of_all(training, weights):
    """`weights` by name."""
    if training["optimizer"] != "muon":
        return optimizer_of(training, list(weights.values()))
    rest = training | {"optimizer": training["muon_scalar_optimizer"]}
    return muon.Both(training, weights, lambda others: optimizer_of(rest, others))


def optimizer_of(training, weights):
    rate, decay = training["learning_rate"], training["weight_decay"]
    betas = (training["beta1"], training["beta2"])
    common = {"lr": rate, "weight_decay": decay}
    name = training["optimizer"]
    if name == "sgd":
        return torch.optim.SGD(weights, **common)
    if name == "momentum":
        return torch.optim.SGD(weights, momentum=training["momentum"], **common)
    if name == "rmsprop":
        return torch.optim.RMSprop(weights, alpha=training["rms_alpha"], eps=training["epsilon"],
                                   **common)
    if name == "lion":
        return muon.Lion(weights, training)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    return kind(weights, betas=betas, eps=training["epsilon"], **common)


def train(run):
    """Trains with the weights and tokens of a DumpedRun: (losses, norms, weights by name)."""
    training = run.scenario["training"]
    weights = {name: tensor_of(each).requires_grad_() for name, each in
               run.of_kind(0, "parameter").items()}
    model = FAMILIES[run.scenario["model"]["family"]](run.scenario["model"], weights)
    optimizer = optimizer_of_all(training, weights)
    limit = training["max_grad_norm"] or math.inf
    losses, norms = [], []
    for step in range(1, run.steps + 1):
        inputs, targets = (tensor_of(run.tensors(step)[name]) for name in ("inputs", "targets"))
        counted = (targets >= 0).sum()
        optimizer.zero_grad()
        loss = 0.0
        parts = list(zip(inputs.split(training["micro_batch_size"]),
                         targets.split(training["micro_batch_size"])))
        for tokens, wanted in parts:
            logits = model.logits(tokens)
            cross = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-1,
                                    reduction="sum") / counted
            (cross + sum(model.balance) / len(parts)).backward()
            loss += cross.item()
        losses.append(loss)
        norms.append(torch.nn.utils.clip_grad_norm_(weights.values(), limit).item())
        optimizer.step()
    return losses, norms, weights
