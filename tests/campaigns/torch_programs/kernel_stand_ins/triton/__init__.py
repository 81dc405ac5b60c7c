"""Stands in for Triton: a kernel reads the tensors that it is given and writes those that its text
stores to, once each. It computes nothing."""

import inspect
import re

import torch

_LIBRARY = torch.library.Library("triton_kernels", "FRAGMENT")


class Kernel:
    def __init__(self, function):
        self.names = list(inspect.signature(function).parameters)
        self.stored = set(re.findall(r"tl\.store\(\s*(\w+)", inspect.getsource(function)))
        name = function.__name__.strip("_")
        _LIBRARY.define(f"{name}(Tensor[] read, *, Tensor(a!)[] out) -> ()")
        _LIBRARY.impl(name, lambda read, *, out: None, "Meta")
        self.operator = getattr(torch.ops.triton_kernels, name)

    def __getitem__(self, _):
        return self.launch

    def launch(self, *arguments):
        tensors = [(name in self.stored, value) for name, value in zip(self.names, arguments)
                   if isinstance(value, torch.Tensor)]
        self.operator([value for is_stored, value in tensors if not is_stored],
                      out=[value for is_stored, value in tensors if is_stored])


class Config:
    def __init__(self, *_, **__):
        pass


def jit(function):
    return Kernel(function)


def autotune(**_):
    return lambda kernel: kernel


def next_power_of_2(number):
    return 1 << (number - 1).bit_length()
