"""Follows a training through its optimizers: where steps end, and what parameters, gradients and
optimizer states are."""

import functools
import json

import torch
from torch.optim import optimizer as optimizers


def storages_of(value):
    """The addresses of a tensor's memory, of a DTensor's local part too."""
    local = getattr(value, "_local_tensor", value)
    if isinstance(local, torch.Tensor) and local.device.type == "cuda":
        yield local.untyped_storage().data_ptr()


class Steps:
    def __init__(self, native, most=0):
        self.native = native
        self.most = most  # The script ends after so many steps; 0: by itself.
        self.number = 0
        self.first = None  # The optimizer whose steps are those of the training.
        self.categories = {}
        self.mark("step_begins")

    def install(self):
        optimizers.register_optimizer_step_pre_hook(self.before_step)
        optimizers.register_optimizer_step_post_hook(self.after_step)
        zero = optimizers.Optimizer.zero_grad

        @functools.wraps(zero)
        def zero_grad(optimizer, *arguments, **named):
            self.native.enter_optimizer()
            try:
                return zero(optimizer, *arguments, **named)
            finally:
                self.native.leave()

        optimizers.Optimizer.zero_grad = zero_grad

    def mark(self, kind):
        self.native.mark(json.dumps({"kind": kind, "step": self.number}))

    def before_step(self, *_):
        self.native.enter_optimizer()

    def after_step(self, optimizer, *_):
        self.native.leave()
        self.first = self.first or optimizer
        self.categorize(optimizer)
        if optimizer is not self.first:
            return
        self.mark("step_ends")
        self.number += 1
        if self.number == self.most:
            raise SystemExit(0)
        self.mark("step_begins")

    def categorize(self, optimizer):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.put("params", parameter)
                if parameter.grad is not None:
                    self.put("grads", parameter.grad)
        for state in optimizer.state.values():
            for value in state.values():
                self.put("optimizer", value)

    def put(self, category, value):
        for address in storages_of(value):
            number = self.native.allocation_of(address)
            if number >= 0:
                self.categories.setdefault(number, category)
