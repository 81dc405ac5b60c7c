"""Muon in PyTorch, line by line from NVIDIA-NeMo/Emerging-Optimizers@fd77292.

Momentum, Nesterov, decay and update: emerging_optimizers/orthogonalized_optimizers/
orthogonalized_optimizer.py (OrthogonalizedOptimizer.step) and mixin.py; the iteration: muon_utils.py
(newton_schulz, newton_schulz_step, batched_newton_schulz_step); factors: muon.py
(get_muon_scale_factor). Theirs takes fp32 alone; here all is in the weights' type.
"""

from itertools import cycle, islice

import torch

COEFFICIENT_SETS = {
    "simple": [
        (3.4445, -4.7750, 2.0315),
    ],
    "quintic": [
        (4.0848, -6.8946, 2.9270),
        (3.9505, -6.3029, 2.6377),
        (3.7418, -5.5913, 2.3037),
        (2.8769, -3.1427, 1.2046),
        (2.8366, -3.0525, 1.2012),
    ],
}


def newton_schulz_step(X, a, b, c):
    A = X @ X.mT
    B = torch.addmm(A, A, A, alpha=c, beta=b)
    return torch.addmm(X, B, X, alpha=1.0, beta=a)


def batched_newton_schulz_step(X, a, b, c):
    A = X @ X.mT
    B = torch.baddbmm(A, A, A, alpha=c, beta=b)
    return torch.baddbmm(X, B, X, alpha=1.0, beta=a)


def newton_schulz(x, steps, coefficient_type, eps=1e-15):
    transpose = x.size(-2) > x.size(-1)
    if transpose:
        x = x.mT
    X = torch.nn.functional.normalize(x, p=2, dim=(-2, -1), eps=eps)
    ns_step_fn = newton_schulz_step if X.ndim == 2 else batched_newton_schulz_step
    for a, b, c in islice(cycle(COEFFICIENT_SETS[coefficient_type]), steps):
        X = ns_step_fn(X, a, b, c)
    if transpose:
        X = X.mT
    return X


def get_muon_scale_factor(size_out, size_in, mode):
    if mode == "shape_scaling":
        return max(1, size_out / size_in) ** 0.5
    if mode == "spectral":
        return max(size_out, size_in) ** 0.5
    assert mode == "unit_rms_norm"
    return (size_out / size_in) ** 0.5


class Muon(torch.optim.Optimizer):
    """`splits`: by id of a parameter, the rows of the matrices that are one after the other in it."""

    def __init__(self, params, training, splits):
        defaults = {"lr": training["learning_rate"], "momentum": training["muon_momentum"],
                    "weight_decay": training["weight_decay"]}
        super().__init__(params, defaults)
        self.nesterov = training["muon_nesterov"]
        self.num_ns_steps = training["muon_num_ns_steps"]
        self.coefficient_type = training["muon_coefficient_type"]
        self.scale_mode = training["muon_scale_mode"]
        self.extra_scale_factor = training["muon_extra_scale_factor"]
        self.splits = splits

    def scaled_orthogonalize_fn(self, grad):
        orth_grad = newton_schulz(grad, steps=self.num_ns_steps,
                                  coefficient_type=self.coefficient_type)
        scale_factor = get_muon_scale_factor(grad.size(-2), grad.size(-1), mode=self.scale_mode)
        return orth_grad * scale_factor * self.extra_scale_factor

    def orthogonalize(self, p, grad):
        if id(p) in self.splits:
            qkv_grads = torch.split(grad, self.splits[id(p)], dim=0)
            return torch.cat([self.scaled_orthogonalize_fn(g) for g in qkv_grads])
        return self.scaled_orthogonalize_fn(grad)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                grad = p.grad
                state = self.state[p]
                if len(state) == 0:
                    state["momentum_buffer"] = torch.zeros_like(p.data)
                p.add_(p, alpha=(-group["weight_decay"] * group["lr"]))
                state["momentum_buffer"].lerp_(grad, 1 - group["momentum"])
                if self.nesterov:
                    grad = grad.lerp(state["momentum_buffer"], group["momentum"])
                else:
                    grad = state["momentum_buffer"]
                orth_grad = self.orthogonalize(p, grad)
                p.add_(orth_grad, alpha=-group["lr"])


class Lion(torch.optim.Optimizer):
    """emerging_optimizers/scalar_optimizers/update_functions/lion.py, with decoupled decay."""

    def __init__(self, params, training):
        super().__init__(params, {"lr": training["learning_rate"],
                                  "betas": (training["beta1"], training["beta2"]),
                                  "weight_decay": training["weight_decay"]})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["exp_avg"] = torch.zeros_like(p.data)
                p.add_(p, alpha=(-group["weight_decay"] * group["lr"]))
                update_momentum = state["exp_avg"].lerp(p.grad, 1 - beta1)
                state["exp_avg"].lerp_(p.grad, 1 - beta2)
                p.add_(torch.sign(update_momentum), alpha=-group["lr"])


class Both:
    """Two optimizers as one: Muon's weights and the rest, as Megatron-Core divides them."""

    def __init__(self, training, weights, rest_of):
        blocks = {name: w for name, w in weights.items()
                  if name.startswith("blocks.") and w.dim() >= 2}
        fused = {id(w): [w.shape[1], *[(w.shape[0] - w.shape[1]) // 2] * 2]
                 for name, w in blocks.items() if name.endswith("attention.qkv.weight")}
        self.parts = [Muon(list(blocks.values()), training, fused),
                      rest_of([w for name, w in weights.items() if name not in blocks])]

    def zero_grad(self):
        for part in self.parts:
            part.zero_grad()

    def step(self):
        for part in self.parts:
            part.step()
