"""Multi-token prediction of Megatron-Core in PyTorch, followed line by line, on weights of a state dump.

The file: megatron/core/transformer/multi_token_prediction.py of NVIDIA/Megatron-LM at
00611e6eeb0b09b5ee074750956855215ddbd67f: roll_tensor, MultiTokenPredictionLayer (_get_embeddings,
_concat_embeddings, _postprocess) and process_mtp_loss with calculate_per_token_loss. One device has
nothing to gather or to scatter. The blocks are those of models.py.
"""

import torch
import torch.nn.functional as F

import models


def roll_tensor(tensor, shifts=-1, dims=-1):
    rolled_tensor = torch.roll(tensor, shifts=shifts, dims=dims)
    rolled_tensor.select(dims, shifts).fill_(0)
    return rolled_tensor, rolled_tensor.sum()


class MultiToken(models.Llama):
    def layer(self, name, x):
        x = x + self.attention(name, self.norm(f"{name}.norm1", x))
        return x + self.gated(self.norm(f"{name}.norm2", x),
                              *(self.w[f"{name}.mlp.{part}"] for part in ("gate", "up", "down")))

    def hidden_states(self, input_ids):
        """Those of the model and of each depth; a depth reads the normed ones before it."""
        hidden_states = self.embedded(input_ids)
        for block in range(self.options["num_layers"]):
            hidden_states = self.layer(f"blocks.{block}", hidden_states)
        hidden_states_list = [self.norm("final_norm", hidden_states)]
        for depth in range(self.options["mtp_num_layers"]):
            name = f"mtp.{depth}"
            input_ids, _ = roll_tensor(input_ids)
            decoder_input = self.norm(f"{name}.embedding_norm", self.embedded(input_ids))
            hidden_states = self.norm(f"{name}.stream_norm", hidden_states_list[-1])
            hidden_states = torch.cat((decoder_input, hidden_states), -1)
            hidden_states = F.linear(hidden_states, self.w[f"{name}.projection"])
            hidden_states = self.layer(name, hidden_states)
            hidden_states_list.append(self.norm(f"{name}.final_norm", hidden_states))
        return hidden_states_list

    def language_model_loss(self, labels, hidden_states):
        logits = F.linear(hidden_states, self.w["head"])
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view(labels.shape)

    def loss(self, inputs, targets):
        """Targets below 0 are masked; their labels are any token."""
        hidden_states_list = self.hidden_states(inputs)
        mtp_labels, loss_mask = targets.clamp(min=0), (targets >= 0).to(models.DTYPE)
        original_num_tokens = loss_mask.sum()
        total = (self.language_model_loss(mtp_labels, hidden_states_list[0]) * loss_mask).sum()
        for mtp_layer_number in range(self.options["mtp_num_layers"]):
            mtp_labels, _ = roll_tensor(mtp_labels)
            loss_mask, num_tokens = roll_tensor(loss_mask)
            mtp_loss = self.language_model_loss(mtp_labels, hidden_states_list[mtp_layer_number + 1])
            mtp_loss = loss_mask * mtp_loss
            mtp_loss_scale = self.options["mtp_loss_scaling_factor"] / self.options["mtp_num_layers"]
            total = total + (mtp_loss_scale * mtp_loss * (original_num_tokens / num_tokens)).sum()
        return total / original_num_tokens  # finalize_model_grads.

    def end_step(self):
        pass
