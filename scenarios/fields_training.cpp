#include <fmt/format.h>

#include "strategies/model/low_precision.hpp"
#include "strategies/optimizer/rules.hpp"

#include "scenarios/field_table.hpp"

namespace shardsim {
namespace {

template <typename... Members>
Field training(const char* path, Members... members) {
  return field(path, &Scenario::training, members...);
}

std::vector<std::string> names_of_recipes() {
  std::vector<std::string> names;
  for (const RecipeRow& row : all_recipes()) names.emplace_back(row.name);
  return names;
}

Field kept_layers(const char* path, std::int64_t TrainingSpec::*member) {
  return training(path, member)
      .range(0, kTwoTo20)
      .or_else("0")
      .acts_when("products are in low precision",
                 [](const Scenario& s) { return s.training.has_low_products(); });
}

bool is_dynamic(const Scenario& s) { return s.training.loss_scaling == LossScaling::Mode::dynamic; }

// Defaults are those of torch.amp.GradScaler, which people know.
std::vector<Field> loss_scaling_fields() {
  using T = TrainingSpec;
  return {
      training("training.loss_scaling", &T::loss_scaling)
          .derived("\"dynamic\" with fp16 in precision or grad_reduce_dtype, else \"none\"")
          .foreign({{"PyTorch", "grad_scaler"}})
          .doc("Multiply the loss, so that small gradients do not vanish in fp16, and skip steps "
               "whose gradients overflow. dynamic: the scale halves after an overflow and doubles "
               "after many steps without. A plan skips no step, unless it replays a run that did."),
      training("training.loss_scale", &T::loss_scale)
          .above(0, 3e38)
          .or_else("65536")
          .same_as({{"Megatron-LM", "initial_loss_scale"}, {"PyTorch", "init_scale"}})
          .foreign({{"DeepSpeed", "initial_scale_power"}})
          .acts_when(
              "loss_scaling is not none",
              [](const Scenario& s) { return s.training.loss_scaling != LossScaling::Mode::none; })
          .of_values()
          .doc("Factor of the loss; dynamic: at the start."),
      training("training.loss_scale_growth_interval", &T::loss_scale_growth_interval)
          .range(1, kTwoTo31)
          .unit("steps")
          .or_else("2000")
          .same_as({{"Megatron-LM", "loss_scale_window"}, {"PyTorch", "growth_interval"}})
          .acts_when("loss_scaling is dynamic", is_dynamic)
          .of_values()
          .doc("dynamic: steps in a row without overflow after which the scale doubles."),
      training("training.loss_scale_hysteresis", &T::loss_scale_hysteresis)
          .range(1, kTwoTo31)
          .unit("steps")
          .or_else("1")
          .same_as({{"Megatron-LM", "hysteresis"}})
          .acts_when("loss_scaling is dynamic", is_dynamic)
          .doc("dynamic: the overflow since the scale last grew from which on each halves it. 1 as "
               "in PyTorch; Megatron-LM and DeepSpeed use 2."),
  };
}

// A setting that some optimizers read: the field says which, and acts with them alone.
Field setting(const char* path, OptimizerSetting member, const std::string& meaning) {
  const auto reads = [member](const OptimizerRule& rule) { return rule.reads(member); };
  return training(path, member)
      .acts_when("optimizer is " + names_of_optimizers(reads),
                 [reads](const Scenario& s) {
                   return reads(optimizer_rule(s.training.elementwise_optimizer()));
                 })
      .of_values()
      .doc(names_of_optimizers(reads, ", ") + ": " + meaning);
}

bool keeps_state(const OptimizerRule& rule) { return !rule.state_names.empty(); }

std::vector<std::string> words_of_optimizers() {
  const std::vector<std::string_view> names = optimizer_names();
  return {names.begin(), names.end()};
}

// The same, and Muon.
std::vector<std::string> words_of_all_optimizers() {
  std::vector<std::string> words = words_of_optimizers();
  words.emplace_back(kMuon);
  return words;
}

bool uses_muon(const Scenario& s) { return s.training.uses_muon(); }

// Shown by the muon_ fields, all of which act with it alone.
template <typename... Members>
Field muon_field(const char* path, Members... members) {
  return training(path, members...).acts_when("optimizer is muon", uses_muon);
}

// "0.01 for adamw, else 0".
std::string words_of_decay() {
  std::string words;
  for (const OptimizerRule& rule : optimizer_rules()) {
    if (rule.default_weight_decay == 0.0) continue;
    words += fmt::format("{:g} for {}, ", rule.default_weight_decay, rule.name);
  }
  return words + fmt::format("{:g} for {}, else 0", kMuonWeightDecay, kMuon);
}

std::vector<Field> optimizer_fields() {
  using T = TrainingSpec;
  const std::string decoupled =
      names_of_optimizers([](const OptimizerRule& rule) { return rule.decouples_decay; });
  return {
      training("training.optimizer", &T::optimizer)
          .one_of(words_of_all_optimizers())
          .or_else("\"" + std::string(default_optimizer()) + "\"")
          .doc("Update rule. muon orthogonalizes the momentum of the matrices of hidden layers, "
               "each apart (q, k, v, gate, up, every expert), and leaves embeddings, the head, "
               "norms and biases to muon_scalar_optimizer; zero_stage 0 or 1."),
      training("training.learning_rate", &T::learning_rate)
          .range(0, 1e6)
          .or_else("0.001")
          .same_as({{"Megatron-LM", "lr"}})
          .of_values()
          .doc("Learning rate, constant."),
      setting("training.momentum", &T::momentum, "share of the old velocity that is kept.")
          .below(0, 1)
          .or_else("0.9")
          .same_as({{"Megatron-LM", "sgd_momentum"}}),
      setting("training.beta1", &T::beta1, "decay of the first moment.")
          .below(0, 1)
          .or_else("0.9")
          .same_as({{"Megatron-LM", "adam_beta1"}})
          .foreign({{"PyTorch", "betas"}}),
      setting("training.beta2", &T::beta2, "decay of the second moment.")
          .below(0, 1)
          .or_else("0.999")
          .same_as({{"Megatron-LM", "adam_beta2"}}),
      setting("training.epsilon", &T::epsilon, "added to the root of the second moment.")
          .above(0, 1)
          .or_else("1e-08")
          .same_as({{"Megatron-LM", "adam_eps"}, {"PyTorch", "eps"}}),
      training("training.weight_decay", &T::weight_decay)
          .range(0, 1e6)
          .derived(words_of_decay())
          .same_as({{"PyTorch", "wd"}})
          .of_values()
          .doc("Decay of the weights: decoupled in " + decoupled +
               ", added to the gradient elsewhere."),
      setting("training.rms_alpha", &T::rms_alpha, "decay of the mean square.")
          .below(0, 1)
          .or_else("0.99")
          .foreign({{"PyTorch", "alpha"}}),
      training("training.max_grad_norm", &T::max_grad_norm)
          .range(0, 1e12)
          .or_else("0")
          .same_as({{"Megatron-LM", "clip_grad"}, {"DeepSpeed", "gradient_clipping"}})
          .doc("Clip the gradient to this global norm; 0 is off."),
      training("training.grad_norm_type", &T::grad_norm_type)
          .or_else("\"l2\"")
          .foreign({{"PyTorch", "norm_type"}})
          .acts_when("max_grad_norm is not 0",
                     [](const Scenario& s) { return s.training.max_grad_norm != 0; })
          .doc("Norm to clip by: the root of the sum of squares, or the largest absolute value."),
  };
}

std::vector<Field> muon_fields() {
  using T = TrainingSpec;
  using M = MuonOptions;
  return {
      muon_field("training.muon_scalar_optimizer", &T::muon_scalar_optimizer)
          .one_of(words_of_optimizers())
          .or_else("\"" + std::string(default_optimizer()) + "\"")
          .doc("Update rule of the weights that muon does not take."),
      muon_field("training.muon_momentum", &T::muon, &M::momentum)
          .below(0, 1)
          .or_else("0.95")
          .of_values()
          .doc("Share of the old momentum that is kept. Megatron-LM's default is 0.9."),
      muon_field("training.muon_nesterov", &T::muon, &M::nesterov)
          .or_else("true")
          .of_values()
          .doc("Orthogonalize gradient + momentum x buffer in place of the buffer."),
      muon_field("training.muon_num_ns_steps", &T::muon, &M::num_steps)
          .range(1, 100)
          .unit("steps")
          .or_else("5")
          .doc("Newton-Schulz steps per update: 4 m^2 n + 2 m^3 operations each for an m x n "
               "matrix, m the smaller side."),
      muon_field("training.muon_coefficient_type", &T::muon, &M::coefficients)
          .or_else("\"quintic\"")
          .of_values()
          .doc("Coefficients of the steps: five triples in turn, or simple, one for all. After 5 "
               "steps singular values lie in [0.98, 1.14], or [0.68, 1.20]."),
      muon_field("training.muon_scale_mode", &T::muon, &M::scale)
          .or_else("\"spectral\"")
          .of_values()
          .doc("Factor of an update of [out, in]: spectral sqrt(max(out, in)), shape_scaling "
               "sqrt(max(1, out / in)), unit_rms_norm sqrt(out / in)."),
      muon_field("training.muon_extra_scale_factor", &T::muon, &M::extra_scale_factor)
          .above(0, 1e6)
          .or_else("1")
          .of_values()
          .doc("Further factor of an update; 0.2 matches the size of AdamW's."),
      muon_field("training.muon_tp_mode", &T::muon, &M::tensor_parallel)
          .or_else("\"duplicated\"")
          .doc("Matrices that tensor-parallel ranks have slices of. duplicated: each gathers and "
               "iterates all; distributed: each iterates its slice, and products are summed; "
               "blockwise: each slice is a matrix of its own, another algorithm."),
      training("training.muon_dp_mode", &T::muon, &M::data_parallel)
          .or_else("\"layer_wise\"")
          .acts_when("optimizer is muon and zero_stage is 1",
                     [](const Scenario& s) {
                       return s.training.uses_muon() && s.parallelism.zero_stage == 1;
                     })
          .doc("ZeRO-1. layer_wise: each matrix has one owner, as in Megatron-LM; slices: ranks "
               "own slices, and gather what they iterate, as in Moonlight."),
  };
}

std::vector<Field> other_training_fields() {
  using T = TrainingSpec;
  return {
      training("training.recompute", &T::recompute)
          .or_else("\"none\"")
          .foreign({{"Megatron-LM", "recompute_granularity"},
                    {"DeepSpeed", "activation_checkpointing"},
                    {"torchtitan", "activation_checkpoint"}})
          .doc("Activations of blocks that are computed again in backward instead of "
               "kept. selective: those of recompute_modules; full: all but a block's input."),
      training("training.recompute_modules", &T::recompute_modules)
          .or_else("\"" + to_string(kDefaultRecomputeModules) + "\"")
          .acts_when("recompute is selective",
                     [](const Scenario& s) { return s.training.recompute == Recompute::selective; })
          .doc("Parts of blocks that selective recomputation takes, with commas between them. "
               "layernorm, activation, moe_act: outputs of norms, of activation functions and of "
               "those of routed experts. core_attn: what attention keeps beside queries, keys, "
               "values and its output. mla_up_proj: queries, keys and values made of latents. mlp, "
               "moe, shared_experts: all but the input of a dense MLP, of experts, of shared "
               "experts; their messages go again."),
      training("training.activation_store", &T::activation_store)
          .or_else("\"same\"")
          .foreign({{"Megatron-LM", "activation_func_fp8_input_store"}})
          .doc(
              "How inputs of activation functions stay for backward, in dense MLPs and experts. "
              "e4m3: in 8 bits without a scale. blockwise: in 8 bits with a scale in fp32 for each "
              "128 elements (DeepSeek-V3). Backward reads them rounded."),
      training("training.hidden_dropout", &T::hidden_dropout)
          .below(0, 1)
          .or_else("0")
          .doc("Share of the elements dropped from the embedding's output and from the "
               "output of each branch of a block, drawn from the seed."),
      training("training.ignore_fraction", &T::ignore_fraction)
          .below(0, 1)
          .or_else("0")
          .doc("Share of the targets that the loss ignores, drawn from the seed; ranks "
               "then hold unequal numbers of tokens, as with padding."),
      training("training.tokens_total", &T::tokens_total)
          .range(0, 1e18)
          .unit("tokens")
          .or_else("0")
          .doc("Tokens of the whole training, such as 1e12, for its days and, with "
               "cost.usd_per_gpu_hour, its cost; 0: not given."),
  };
}

std::vector<Field> batch_fields() {
  using T = TrainingSpec;
  return {
      training("training.global_batch_size", &T::global_batch_size)
          .range(1, kTwoTo31)
          .unit("sequences")
          .required()
          .same_as({{"DeepSpeed", "train_batch_size"}})
          .doc("Sequences (rows for an mlp) per optimizer step over all ranks."),
      training("training.micro_batch_size", &T::micro_batch_size)
          .range(1, kTwoTo20)
          .unit("sequences")
          .or_else("1")
          .same_as({{"DeepSpeed", "train_micro_batch_size_per_gpu"}})
          .foreign({{"torchtitan", "local_batch_size"}})
          .doc("Sequences that one rank computes at once."),
      training("training.num_microbatches", &T::num_microbatches)
          .range(1, kTwoTo31)
          .derived("global_batch_size / (micro_batch_size x dp_replicate x dp_shard)")
          .same_as({{"DeepSpeed", "gradient_accumulation_steps"}})
          .doc("Microbatches that are accumulated per step; if given it must agree."),
  };
}

constexpr const char* kDelayed = "fp8_recipe is delayed";
bool has_delayed_scales(const Scenario& s) { return s.training.fp8_recipe == "delayed"; }

std::vector<Field> history_fields() {
  using T = TrainingSpec;
  return {
      training("training.amax_history_len", &T::amax_history_len)
          .range(1, 1 << 20)
          .or_else("1")
          .foreign({{"Megatron-LM", "fp8_amax_history_len"}})
          .acts_when(kDelayed, has_delayed_scales)
          .doc("Largest elements that are kept of each tensor. Transformer Engine alone: 1,024."),
      training("training.amax_compute", &T::amax_compute)
          .or_else("\"most_recent\"")
          .foreign({{"Megatron-LM", "fp8_amax_compute_algo"}})
          .acts_when(std::string(kDelayed) + " and tensors are real",
                     [](const Scenario& s) {
                       return has_delayed_scales(s) && s.execution.tensors == TensorMode::real;
                     })
          .doc("A scale is that of the last one of them, or of the largest."),
      training("training.amax_update", &T::amax_update)
          .or_else("\"step\"")
          .acts_when(kDelayed, has_delayed_scales)
          .doc("When ranks agree on the largest elements and scales change. microbatch: after each "
               "forward and each backward, as in Transformer Engine, so that what is trained "
               "depends on the number of microbatches. Scales of weights change once a step."),
  };
}

std::vector<Field> precision_fields() {
  using T = TrainingSpec;
  return {
      training("training.precision", &T::precision)
          .or_else("\"bf16\"")
          .same_as({{"Hugging Face", "torch_dtype"},
                    {"Hugging Face", "dtype"},
                    {"torchtitan", "mixed_precision_param"}})
          .doc("Type of weights, activations and gradients. 16-bit types keep fp32 master weights. "
               "fp8 and nvfp4: bf16, but for the products of the layers' linear layers "
               "(docs/guide/low-precision.md)."),
      training("training.fp8_recipe", &T::fp8_recipe)
          .one_of(names_of_recipes())
          .derived("mxfp8 on blackwell and blackwell_ultra, else tensorwise; nvfp4 with precision "
                   "nvfp4, none without low precision")
          .doc("How scales are found. delayed: one for a tensor, from its past; tensorwise: one, "
               "from the tensor itself; blockwise: one for 128 elements, and for 128 x 128 of a "
               "weight; mxfp8: one for 32. With precision fp64 all but the operands of these "
               "products is fp64, so that a verification tells every difference from a rounding."),
      training("training.quantized_parameters", &T::quantized_parameters)
          .or_else("false")
          .foreign({{"Megatron-LM", "fp8_param_gather"}})
          .acts_when("products are in low precision",
                     [](const Scenario& s) { return s.training.has_low_products(); })
          .doc("Weights of products in low precision are kept and gathered in 8 bits alone, beside "
               "masters in fp32. With mxfp8 and zero_stage 1 they are gathered in bf16, into the "
               "memory of gradients. Prices alone."),
      kept_layers("training.bf16_layers_at_start", &T::bf16_layers_at_start)
          .foreign({{"Megatron-LM", "num_layers_at_start_in_bf16"}})
          .doc("First layers whose products stay in bf16."),
      kept_layers("training.bf16_layers_at_end", &T::bf16_layers_at_end)
          .foreign({{"Megatron-LM", "num_layers_at_end_in_bf16"}})
          .doc("The same of the last layers."),
      training("training.grad_reduce_dtype", &T::grad_reduce_dtype)
          .or_auto()
          .derived("precision")
          .until("fp8 gradients", {"fp64", "fp32", "bf16", "fp16"})
          .same_as({{"DeepSpeed", "communication_data_type"},
                    {"torchtitan", "mixed_precision_reduce"},
                    {"PyTorch", "reduce_dtype"}})
          .foreign({{"Megatron-LM", "accumulate_allreduce_grads_in_fp32"}})
          .doc("Type in which gradients are sent and added."),
      training("training.optimizer_state_dtype", &T::optimizer_state_dtype)
          .or_auto()
          .derived("fp32 with 16 bits in precision, else precision")
          .until("optimizer state in 8 bits", {"fp64", "fp32", "bf16", "fp16"})
          .foreign({{"Megatron-LM", "exp_avg_dtype"}, {"Megatron-LM", "exp_avg_sq_dtype"}})
          .acts_when("optimizer is " + names_of_optimizers(keeps_state),
                     [](const Scenario& s) {
                       return keeps_state(optimizer_rule(s.training.elementwise_optimizer()));
                     })
          .doc("Type of the moments of " + names_of_optimizers(keeps_state, ", ") +
               ". Master weights, and the momentum of muon, keep theirs."),
  };
}

}  // namespace

std::vector<Field> training_fields() {
  return joined({batch_fields(), precision_fields(), history_fields(), optimizer_fields(),
                 muon_fields(), loss_scaling_fields(), other_training_fields()});
}

}  // namespace shardsim
