"""Layers of linear attention in PyTorch, position by position, from papers and this project's pages.

PyTorch supplies derivatives. Order of columns and of heads as in transformers' models of these layers:
modeling_qwen3_next.py (Qwen3NextGatedDeltaNet behind fix_query_key_value_ordering) at commit 01cdc608,
modeling_mamba2.py (Mamba2Mixer.torch_forward) at commit 020a37d2, modeling_nemotron_h.py at commit
008d9e95. There, sums run in fp32; here all is fp64.
"""

import math

import torch
import torch.nn.functional as F


def convolved(x, weight, bias):
    """x [b, s, channels], weight [channels, w]."""
    channels, width = weight.shape
    sums = F.conv1d(x.transpose(1, 2), weight[:, None, :], bias, padding=width - 1, groups=channels)
    return F.silu(sums[:, :, :x.shape[1]].transpose(1, 2))


def rms_normed(x, epsilon):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + epsilon)


def heads(x, size):
    return x.reshape(*x.shape[:-1], -1, size)


def delta_rule(q, k, v, beta, g):
    """q, k [b, s, heads, d_k], v [b, s, heads, d_v], beta, g [b, s, heads] -> [b, s, heads, d_v]."""
    q, k = (x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6) for x in (q, k))
    q = q / math.sqrt(q.shape[-1])
    state = q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3])
    outputs = []
    for i in range(q.shape[1]):
        state = state * g[:, i].exp()[..., None, None]
        told = torch.einsum("bhkv,bhk->bhv", state, k[:, i])
        change = beta[:, i, :, None] * (v[:, i] - told)
        state = state + torch.einsum("bhk,bhv->bhkv", k[:, i], change)
        outputs.append(torch.einsum("bhkv,bhk->bhv", state, q[:, i]))
    return torch.stack(outputs, dim=1)


def gated_delta_net(sizes, p):
    """p["projected"] [b, s, q + k + v + z + beta + a] -> [b, s, v], ahead of the projection out."""
    keys, values = sizes["key_heads"] * sizes["key_size"], sizes["value_heads"] * sizes["value_size"]
    qkv, z, beta, a = p["projected"].split(
        [2 * keys + values, values, sizes["value_heads"], sizes["value_heads"]], dim=-1)
    q, k, v = convolved(qkv, p["convolution"], None).split([keys, keys, values], dim=-1)
    shared = sizes["value_heads"] // sizes["key_heads"]
    q, k = (heads(x, sizes["key_size"]).repeat_interleave(shared, dim=2) for x in (q, k))
    g = -p["A_log"].exp() * F.softplus(a + p["dt_bias"])
    o = delta_rule(q, k, heads(v, sizes["value_size"]), beta.sigmoid(), g)
    y = rms_normed(o, sizes["epsilon"]) * p["norm"] * F.silu(heads(z, sizes["value_size"]))
    return y.flatten(2)


def selective_scan(x, b, c, dt, a):
    """x [b, s, heads, p], B and C [b, s, heads, N], dt [b, s, heads], A [heads] -> as x."""
    state = x.new_zeros(x.shape[0], x.shape[2], x.shape[3], b.shape[3])
    outputs = []
    for i in range(x.shape[1]):
        state = state * (a * dt[:, i]).exp()[..., None, None]
        state = state + torch.einsum("bhp,bhn->bhpn", dt[:, i, :, None] * x[:, i], b[:, i])
        outputs.append(torch.einsum("bhpn,bhn->bhp", state, c[:, i]))
    return torch.stack(outputs, dim=1)


def mamba_2(sizes, p):
    """p["projected"] [b, s, z + x + B + C + dt] -> [b, s, z], ahead of the projection out."""
    width, group = sizes["heads"] * sizes["head_size"], sizes["groups"] * sizes["state_size"]
    z, xbc, dt = p["projected"].split([width, width + 2 * group, sizes["heads"]], dim=-1)
    x, b, c = convolved(xbc, p["convolution"], p["bias"]).split([width, group, group], dim=-1)
    shared = sizes["heads"] // sizes["groups"]
    b, c = (heads(part, sizes["state_size"]).repeat_interleave(shared, dim=2) for part in (b, c))
    x = heads(x, sizes["head_size"])
    y = selective_scan(x, b, c, F.softplus(dt + p["dt_bias"]), -p["A_log"].exp())
    y = (y + p["D"][:, None] * x).flatten(2) * F.silu(z)
    return rms_normed(heads(y, width // sizes["groups"]), sizes["epsilon"]).flatten(2) * p["norm"]


DELTA_SIZES = {"key_heads": 2, "value_heads": 4, "key_size": 4, "value_size": 3, "epsilon": 1e-6}
MAMBA_SIZES = {"heads": 4, "head_size": 3, "groups": 2, "state_size": 4, "epsilon": 1e-5}
BATCH, LENGTH, WINDOW = 2, 11, 4
# By name: the function, its sizes, and the shapes of its input and parameters.
LAYERS = {
    "delta": (gated_delta_net, DELTA_SIZES,
              {"projected": (BATCH, LENGTH, 48), "convolution": (28, WINDOW), "A_log": (4,),
               "dt_bias": (4,), "norm": (3,)}),
    "mamba": (mamba_2, MAMBA_SIZES,
              {"projected": (BATCH, LENGTH, 44), "convolution": (28, WINDOW), "bias": (28,),
               "A_log": (4,), "dt_bias": (4,), "D": (4,), "norm": (12,)}),
}


def computed():
    """Input, parameters, output and all gradients of each layer, for a random gradient of the output."""
    generator = torch.Generator().manual_seed(17)
    vectors = {}
    for layer, (function, sizes, shapes) in LAYERS.items():
        p = {name: torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
             for name, shape in shapes.items()}
        y = function(sizes, p)
        dy = torch.randn(y.shape, generator=generator, dtype=torch.float64)
        y.backward(dy)
        tensors = {**p, "y": y, "dy": dy, **{f"d_{name}": x.grad for name, x in p.items()}}
        for name, x in tensors.items():
            vectors[f"{layer}/{name}"] = x.detach().flatten().tolist()
    return vectors
