"""Follows a training through its modules: the path of each is where its operators belong."""

import functools
import weakref

import torch

# Names that a wrapper puts between a module and what it wraps.
WRAPPERS = {"_checkpoint_wrapped_module", "_fsdp_wrapped_module", "_orig_mod"}


def kind_of(module):
    """The name of its class, as the script has it: FSDP2 makes one of its own."""
    return next(kind.__name__ for kind in type(module).__mro__
                if not kind.__name__.startswith("FSDP"))


def paths_of(root):
    """Each module and its path; the root's is the name of its class."""
    wraps = isinstance(root, torch.nn.parallel.DistributedDataParallel)
    for path, module in root.named_modules():
        words = [word for word in path.split(".") if word not in WRAPPERS]
        if wraps and words[0] == "module":
            words = words[1:]
        yield module, ".".join(words) or kind_of(module)


class Modules:
    def __init__(self, native):
        self.native = native
        self.numbers = weakref.WeakKeyDictionary()  # Memory of a module ends with the script's use.

    def install(self):
        # Not by hooks: those of FSDP2 and of others, which do work for a module, come behind.
        call = torch.nn.Module.__call__
        enter, leave, number_of = self.native.enter_module, self.native.leave, self.number_of

        @functools.wraps(call)
        def call_module(module, *arguments, **named):
            enter(number_of(module))
            try:
                return call(module, *arguments, **named)
            finally:
                leave()

        torch.nn.Module.__call__ = call_module

    def number_of(self, module):
        number = self.numbers.get(module)
        if number is None:
            for part, path in paths_of(module):
                self.numbers.setdefault(part, self.native.module_number(path))
            number = self.numbers[module]
        return number
