"""The cases of golden_transformers.py: losses and gradients in PyTorch, on weights of a state dump."""

import torch.nn.functional as F

import megatron_prediction
import models
import transformers_heads
import transformers_hybrids
import transformers_models

CASES = {"deepseek_v3": transformers_models.DeepseekV3, "ernie4_5_moe": transformers_models.Ernie,
         "falcon_h1": transformers_hybrids.FalconH1, "gemma4": transformers_heads.Gemma4,
         "gpt_oss": transformers_models.GptOss, "llama4": transformers_models.Llama4,
         "mimo_v2": transformers_heads.MiMoV2, "multi_token": megatron_prediction.MultiToken,
         "nemotron_h": transformers_hybrids.NemotronH, "step3p5": transformers_heads.Step3p5}


def cross_entropy(model, inputs, targets):
    logits = model.logits(inputs)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1,
                           reduction="sum") / (targets >= 0).sum()


def losses_and_gradients(case, run):
    """(the loss of every step, the gradients of the last by name), each with the weights that shardsim
    has before the step."""
    weights, losses = {}, []
    model = CASES[case](run.scenario["model"], weights)
    for step in range(1, run.steps + 1):
        weights.update({name: models.tensor_of(each).requires_grad_() for name, each in
                        run.of_kind(step - 1, "parameter").items()})
        inputs, targets = (models.tensor_of(run.tensors(step)[name]) for name in ("inputs", "targets"))
        has_own = hasattr(model, "loss")
        loss = model.loss(inputs, targets) if has_own else cross_entropy(model, inputs, targets)
        loss.backward()
        losses.append(loss.item())
        model.end_step()
    return losses, {name: weight.grad for name, weight in weights.items()}
