"""The families of kernels that frameworks run in their own module code, each as a module whose
forward and backward the recorder follows. Only the named functions and classes of a source file are
executed, so none of a framework's imports is needed; what they use of CUDA alone is a stand-in.

usage: families.py SOFTWARE FOLDER   FOLDER: with the sources, as record_rows.py puts them there.
It prints the size of each family, and what it keeps for backward in bytes, as a JSON object.
"""

import ast
import json
import pathlib
import sys
import types
import typing

import torch
import torch.nn.functional as F
from torch import nn

# Large enough that what a kernel reads or writes per row or per weight does not count.
BATCH, LENGTH, HEADS, WIDTH, FFN, VOCAB = 2, 4096, 32, 128, 16384, 32768
HIDDEN = HEADS * WIDTH
HALF = torch.bfloat16
# Bytes that our operations move in 16 bits in forward and in backward, and that they keep
# (strategies/model).
NORM, GATED, UNGATED, ROTARY, LOSS = (4, 6, 2), (6, 10, 4), (4, 6, 2), (4, 4, 0), (2, 4, 2)


class Family(typing.NamedTuple):
    run: typing.Callable  # The framework's own code; returns a tensor or several.
    inputs: list
    elements: int  # Those that bytes are counted for.
    ideal: tuple  # Bytes of an element that one kernel moves in forward and backward, and that are kept.
    calls: int = 1  # Operations of ours that this is.


class Stage(nn.Module):
    """Its path is the name of the family, under which its operations are recorded."""

    def __init__(self, run):
        super().__init__()
        self.run = run

    def forward(self, *inputs):
        return self.run(*inputs)


def definitions(path, names, **scope):
    """The functions and classes of a file by name, executed with no more than `scope` around them."""
    tree = ast.parse(pathlib.Path(path).read_text(encoding="utf-8"))
    found = [node for node in tree.body if getattr(node, "name", None) in names]
    missing = set(names) - {node.name for node in found}
    if missing:
        sys.exit(f"families: {path} has no {', '.join(sorted(missing))}")
    scope = {"torch": torch, "nn": nn, "F": F, "__name__": "families"} | vars(typing) | scope
    for node in found:
        node.decorator_list = [each for each in node.decorator_list
                               if not isinstance(each, ast.Call)]  # Those that add documentation.
    exec(compile(ast.Module(found, []), str(path), "exec"), scope)
    return types.SimpleNamespace(**{name: scope[name] for name in names})


def made(*sizes, dtype=HALF):
    return torch.empty(*sizes, dtype=dtype, device="cuda", requires_grad=dtype.is_floating_point)


def activations(width=HIDDEN):
    return made(BATCH, LENGTH, width)


def labels():
    return torch.zeros(BATCH, LENGTH, dtype=torch.int64, device="cuda")


def on_device(module):
    return module.to(device="cuda", dtype=HALF)


def swiglu_of(feed_forward, first, second):
    """The activation of a module whose two products give what they are given."""
    gate, up = activations(FFN), activations(FFN)

    def run(a, b):
        setattr(feed_forward, first, lambda _: a)
        setattr(feed_forward, second, lambda _: b)
        return feed_forward.forward(None)

    return Family(run, [gate, up], gate.numel(), GATED)


def same(x):
    return x


def heads_of(order):
    """Queries and keys, with axes in the order of the framework."""
    sizes = {"b": BATCH, "s": LENGTH, "h": HEADS, "w": WIDTH}
    return [made(*(sizes[axis] for axis in order)) for _ in range(2)]


def norm_of(module):
    x = activations()
    return Family(on_device(module), [x], x.numel(), NORM)


# --- Frameworks ------------------------------------------------------------------------------------


def torchtitan(folder):
    model = definitions(folder / "torchtitan/models/llama/model.py",
                        ["apply_rotary_emb", "reshape_for_broadcast", "FeedForward"])
    norms = definitions(folder / "torchtitan/models/norms.py", ["RMSNorm"])
    # train.py's loss_fn is within main(): F.cross_entropy of what the model's end made fp32.
    tree = ast.parse((folder / "train.py").read_text(encoding="utf-8"))
    scope = {"torch": torch}
    inner = next(node for node in ast.walk(tree) if getattr(node, "name", "") == "loss_fn")
    exec(compile(ast.Module([inner], []), "train.py", "exec"), scope)
    logits = activations(VOCAB)
    freqs = torch.empty(LENGTH, WIDTH // 2, dtype=torch.complex64, device="cuda")
    queries, keys = heads_of("bshw")
    feed_forward = types.SimpleNamespace(w2=same)
    feed_forward.forward = types.MethodType(model.FeedForward.forward, feed_forward)
    return {
        "norm": norm_of(norms.RMSNorm(HIDDEN)),
        "activation": swiglu_of(feed_forward, "w1", "w3"),
        "rotary": Family(lambda q, k: model.apply_rotary_emb(q, k, freqs), [queries, keys],
                         queries.numel() + keys.numel(), ROTARY, 2),
        # model.py: output.float()
        "cross_entropy": Family(lambda x: scope["loss_fn"](x.float(), labels()), [logits],
                                logits.numel(), LOSS),
    }


def transformers(folder):
    path = folder / "src/transformers/models/llama/modeling_llama.py"
    names = ["LlamaRMSNorm", "rotate_half", "apply_rotary_pos_emb", "LlamaMLP", "LlamaForCausalLM"]
    stand_ins = {"LlamaPreTrainedModel": nn.Module, "LlamaConfig": None, "Cache": None,
                 "CausalLMOutputWithPast": None, "CrossEntropyLoss": lambda: F.cross_entropy}
    found = definitions(path, names, **stand_ins)
    config = types.SimpleNamespace(pretraining_tp=1, output_attentions=False,
                                   output_hidden_states=False, use_return_dict=False,
                                   vocab_size=VOCAB)
    feed_forward = types.SimpleNamespace(config=config, act_fn=F.silu, down_proj=same)
    feed_forward.forward = types.MethodType(found.LlamaMLP.forward, feed_forward)

    def loss(x):
        head = types.SimpleNamespace(config=config, lm_head=same, model=lambda **_: (x,))
        return found.LlamaForCausalLM.forward(head, labels=labels())[0]

    cosines, sines = (torch.empty(BATCH, LENGTH, WIDTH, dtype=HALF, device="cuda") for _ in range(2))
    queries, keys = heads_of("bhsw")
    logits = activations(VOCAB)
    return {
        "norm": norm_of(found.LlamaRMSNorm(HIDDEN)),
        "activation": swiglu_of(feed_forward, "gate_proj", "up_proj"),
        "rotary": Family(lambda q, k: found.apply_rotary_pos_emb(q, k, cosines, sines),
                         [queries, keys], queries.numel() + keys.numel(), ROTARY, 2),
        "cross_entropy": Family(loss, [logits], logits.numel(), LOSS),
    }


def llm_foundry(folder):
    layers = folder / "llmfoundry/models/layers"
    norms = definitions(layers / "norm.py", ["_cast_if_autocast_enabled", "LPLayerNorm"])
    ffn = definitions(layers / "ffn.py", ["MPTMLP"], _DEFAULT_ACT_FN=F.gelu)
    x = activations(FFN)
    mlp = types.SimpleNamespace(act=F.gelu, up_proj=same, down_proj=same)
    return {
        "norm": norm_of(norms.LPLayerNorm(HIDDEN)),
        "activation": Family(lambda a: ffn.MPTMLP.forward(mlp, a), [x], x.numel(), UNGATED),
    }


def internevo(folder):
    linear = definitions(folder / "internlm/model/linear.py", ["FeedForward"])
    feed_forward = types.SimpleNamespace(w3=same)
    feed_forward.forward = types.MethodType(linear.FeedForward.forward, feed_forward)
    x = activations()
    return {
        "activation": swiglu_of(feed_forward, "w1", "w2"),
        # modeling_internlm.py gives norms residual.float(); what follows is Apex's.
        "norm": Family(lambda a: a.float(), [x], x.numel(), NORM),
    }


def _megatron_loss(folder, directory):
    utils = definitions(folder / directory / "utils.py", ["VocabUtility"], Sequence=typing.Sequence,
                        divide=lambda a, b: a // b)
    alone = {"get_tensor_model_parallel_group": lambda: None,
             "get_tensor_model_parallel_rank": lambda: 0,
             "get_tensor_model_parallel_world_size": lambda: 1}
    # Calls between ranks are no kernels of the loss.
    quiet = types.SimpleNamespace(all_reduce=lambda *_, **__: None,
                                  ReduceOp=torch.distributed.ReduceOp)
    here = types.SimpleNamespace(**{name: getattr(torch, name) for name in dir(torch)}
                                 | {"distributed": quiet})
    found = definitions(folder / directory / "cross_entropy.py", ["_VocabParallelCrossEntropy"],
                        VocabUtility=utils.VocabUtility, **alone)
    kind = found._VocabParallelCrossEntropy
    for name in ("forward", "backward"):
        kind.__dict__[name].__func__.__globals__["torch"] = here
    logits = activations(VOCAB)
    # The model's end has made the logits fp32 (post_language_model_processing, or its like in core).
    return {"cross_entropy": Family(lambda x: kind.apply(x.float(), labels()), [logits],
                                    logits.numel(), LOSS)}


def megatron_v2(folder):
    return _megatron_loss(folder, "megatron/mpu")


def megatron_core(folder):
    return _megatron_loss(folder, "megatron/core/tensor_parallel")


FRAMEWORKS = {"torchtitan-2024": torchtitan, "deepspeed-2024": transformers,
              "composer-2023": llm_foundry, "internevo-2023": internevo,
              "megatron-lm-2021": megatron_v2, "megatron-core-2023": megatron_core}


def kept_bytes(stage, family):
    """Outputs, and the bytes that forward keeps for backward beside them and weights."""
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        outputs = stage(*family.inputs)
    outputs = [outputs] if torch.is_tensor(outputs) else list(outputs)
    known = {tensor.untyped_storage()._cdata for tensor in [*stage.parameters(), *outputs]}
    return outputs, sum(kept[key] for key in kept.keys() - known)


class Row(nn.Module):
    def __init__(self, families):
        super().__init__()
        self.families = families
        for name, family in families.items():
            setattr(self, name, Stage(family.run))

    def forward(self):
        facts = {}
        for name, family in self.families.items():
            outputs, kept = kept_bytes(getattr(self, name), family)
            facts[name] = {"kept": kept, "elements": family.elements, "ideal": family.ideal,
                           "calls": family.calls}
            # Not backward(), which adds to gradients that are there: those are no family's kernels.
            wanted = [*family.inputs, *getattr(self, name).parameters()]
            torch.autograd.grad(outputs, wanted, [torch.empty_like(each) for each in outputs])
        return facts


def main():
    software, folder = sys.argv[1:]
    print("facts " + json.dumps(Row(FRAMEWORKS[software](pathlib.Path(folder)))()))


if __name__ == "__main__":
    main()
