#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/import.hpp"
#include "scenarios/formats/layer_pattern.hpp"
#include "scenarios/formats/megatron_model.hpp"
#include "scenarios/scenario_error.hpp"

namespace shardsim {

namespace {

constexpr std::int64_t kGpt2Vocabulary = 50257;

// A whole number that the model needs.
std::int64_t require(MegatronArguments& arguments, const NamePair& pair, const ForeignRange& range,
                     Import& import) {
  const std::string name = pair.theirs;
  if (const auto value = take_integer(arguments, pair, range, import)) return *value;
  throw_problem("E1363", {&arguments.source(), 0, 0}, "the file does not say " + name,
                "add --" + name + ", or name the model with --model");
}

// Megatron-LM pads the vocabulary so that tensor-parallel ranks have equal parts.
std::int64_t padded(std::int64_t vocabulary, MegatronArguments& arguments) {
  const std::int64_t multiple =
      arguments.integer("make_vocab_size_divisible_by", kForeignSize).value_or(128) *
      arguments.integer(megatron::kTensor.theirs, kForeignDegree).value_or(1);
  return (vocabulary + multiple - 1) / multiple * multiple;
}

void import_vocabulary(MegatronArguments& arguments, const MegatronRun& run, Import& import) {
  const char* path = "model.vocab_size";
  if (run.padded_vocab > 0) {
    import.take({"padded vocab (new size)", std::to_string(run.padded_vocab)}, path,
                run.padded_vocab);
  } else if (const auto given = arguments.integer("padded_vocab_size", kForeignSize)) {
    import.take({"padded_vocab_size", std::to_string(*given)}, path, *given);
  } else if (const auto plain = arguments.integer("vocab_size", kForeignSize)) {
    import.derive({"vocab_size", std::to_string(*plain)}, path, padded(*plain, arguments),
                  "filled up as by make_vocab_size_divisible_by");
  } else if (arguments.text("tokenizer_type").value_or("") == "GPT2BPETokenizer") {
    import.derive({"tokenizer_type", "GPT2BPETokenizer"}, path, padded(kGpt2Vocabulary, arguments),
                  "50257 filled up as by make_vocab_size_divisible_by");
  } else {
    import.assume("the vocabulary", path, padded(kGpt2Vocabulary, arguments),
                  "the file names no size, it is the tokenizer's; this is GPT-2's");
  }
}

// Megatron-LM divides sigmoids by their sum where there are several, and makes a softmax of the
// chosen logits unless told to make it of all before.
void import_router(MegatronArguments& arguments, Import& import, std::vector<std::string>& limits) {
  const std::string score = arguments.text("moe_router_score_function").value_or("softmax");
  const bool is_sigmoid = score == "sigmoid";
  const bool is_whole = arguments.truth("moe_router_pre_softmax");
  if (is_sigmoid) {
    import.take({"moe_router_score_function", score}, "model.moe_router_score", score);
    if (import.integer(megatron::kTopK.ours) == 1) {
      import.derive({"moe_router_score_function", score}, "model.moe_router_normalised", false,
                    "one sigmoid is not divided by itself");
    }
  } else if (score != "softmax") {
    limits.push_back("moe_router_score_function " + score + " (here it is softmax or sigmoid)");
  } else if (is_whole) {
    import.derive({"moe_router_pre_softmax", "True"}, "model.moe_router_normalised", false);
  }
  take_number(arguments, {"moe_router_topk_scaling_factor", "model.moe_router_scaling_factor"},
              import);
  constexpr double kDefaultRate = 1e-3;
  const double rate = arguments.number("moe_router_bias_update_rate").value_or(kDefaultRate);
  if (arguments.truth("moe_router_enable_expert_bias")) {
    import.derive({"moe_router_enable_expert_bias", "True"}, "model.moe_router_bias_update_rate",
                  rate);
  }
  // Groups limit nothing there unless it is said how many a token may go to.
  if (arguments.integer("moe_router_group_topk", kForeignDegree)) {
    take_integer(arguments, {"moe_router_num_groups", "model.moe_router_num_groups"},
                 kForeignDegree, import);
    take_integer(arguments, {"moe_router_group_topk", "model.moe_router_group_topk"},
                 kForeignDegree, import);
  }
  take_number(arguments, {"moe_z_loss_coeff", "model.moe_z_loss_coeff"}, import);
  if (arguments.truth("moe_apply_probs_on_input")) {
    import.take({"moe_apply_probs_on_input", "True"}, "model.moe_weight_on_input", true);
  }
}

void import_shared_experts(MegatronArguments& arguments, Import& import) {
  const auto shared = take_integer(arguments, megatron::kSharedFfn, kForeignCount, import);
  if (!shared || *shared == 0) return;
  if (arguments.truth("moe_shared_expert_gate")) {
    import.take({"moe_shared_expert_gate", "True"}, "model.moe_shared_gate", true);
  }
}

// Experts here compute one grouped product over all slots of a capacity. Megatron-LM's defaults are
// others.
void warn_of_expert_work(MegatronArguments& arguments, Import& import) {
  if (!arguments.truth("moe_grouped_gemm")) {
    import.warn({"moe_grouped_gemm", "False"}, "not modelled: experts are one grouped product");
  }
  const bool padded = arguments.truth("moe_pad_expert_input_to_capacity");
  if (import.has("model.moe_capacity_factor") && !padded) {
    import.warn({"moe_pad_expert_input_to_capacity", "False"},
                "not modelled: experts compute all places of their capacity");
  }
}

// Experts are as wide as a dense MLP would be, unless it is said.
void import_experts(MegatronArguments& arguments, std::int64_t dense_width, Import& import,
                    std::vector<std::string>& limits) {
  using megatron::kExpertFfn;
  using megatron::kTopK;
  NamePair experts = megatron::kExperts;
  if (!arguments.integer(experts.theirs, kForeignDegree)) experts.theirs = "num_moe_experts";
  if (!arguments.integer(experts.theirs, kForeignDegree)) return;
  take_integer(arguments, experts, kForeignSize, import);
  import.derive(arguments.at(kTopK.theirs), kTopK.ours,
                arguments.integer(kTopK.theirs, kForeignDegree).value_or(2));
  const std::int64_t width =
      arguments.integer(kExpertFfn.theirs, kForeignSize).value_or(dense_width);
  import.derive(arguments.at(kExpertFfn.theirs), kExpertFfn.ours, width);
  take_number(arguments, {"moe_expert_capacity_factor", "model.moe_capacity_factor"}, import);
  take_number(arguments, {"moe_aux_loss_coeff", "model.moe_aux_loss_coeff"}, import);
  import_shared_experts(arguments, import);
  import_router(arguments, import, limits);
  warn_of_expert_work(arguments, import);
  take_integer(arguments, megatron::kExpertLatent, kForeignSize, import);
}

// Tensor-parallel ranks that are more than key and value heads have copies of these here.
void warn_of_gathered_heads(MegatronArguments& arguments, Import& import) {
  const auto groups = arguments.integer(megatron::kGroups.theirs, kForeignSize);
  const std::int64_t tp = arguments.integer(megatron::kTensor.theirs, kForeignDegree).value_or(1);
  if (!groups || *groups >= tp) return;
  import.warn(arguments.at(megatron::kGroups.theirs),
              "not modelled: Megatron-LM gathers queries, keys and values in each layer where "
              "tensor-parallel ranks are more; here ranks have copies of heads");
}

void import_attention(MegatronArguments& arguments, const MegatronBlocks& blocks, Import& import,
                      const MegatronPattern& pattern, std::vector<std::string>& limits) {
  const std::int64_t heads = require(arguments, megatron::kHeads, kForeignDegree, import);
  if (arguments.truth("group_query_attention")) {
    take_integer(arguments, megatron::kGroups, kForeignSize, import);
    warn_of_gathered_heads(arguments, import);
  }
  const auto channels = arguments.integer(megatron::kHeadDim.theirs, kForeignSize);
  const bool is_latent = import_megatron_latents(arguments, pattern, import, limits);
  if (!is_latent && channels && *channels * heads != import.integer(megatron::kHidden.ours)) {
    take_integer(arguments, megatron::kHeadDim, kForeignSize, import);
  }
  if (arguments.truth("add_qkv_bias") && !import.has("model.query_key_value_bias")) {
    import.derive({"add_qkv_bias", "True"}, "model.query_key_value_bias", true);
  }
  if (arguments.truth("qk_clip")) {
    limits.emplace_back(
        "qk_clip: weights of queries and keys that shrink after a step with large scores");
  }
  const bool has_gate = arguments.truth("attention_output_gate");
  if (has_gate && (is_latent || !blocks.is_llama())) {
    limits.push_back(fmt::format("attention_output_gate of {}",
                                 is_latent ? "latent attention" : "a gpt2's attention"));
  } else if (has_gate) {
    import.take({"attention_output_gate", "True"}, "model.attention_output_gate", true);
  }
  if (is_latent) return;
  take_number(arguments, {"softmax_scale", "model.attention_scale"}, import);
  for (const auto& [name, norm] :
       {std::pair("qk_layernorm", "per_head"), std::pair("qk_l2_norm", "weightless")}) {
    if (!arguments.truth(name)) continue;
    if (blocks.is_llama()) {
      import.derive({name, "True"}, "model.query_key_norm", std::string(norm));
    } else {
      import.warn({name, "True"}, "a gpt2 here has no norms of queries and keys");
    }
  }
}

void import_rotary(MegatronArguments& arguments, Import& import) {
  take_number(arguments, megatron::kRotaryBase, import);
  if (import.has(megatron::kKeyLatent.ours)) return;
  const double part = arguments.number("rotary_percent").value_or(1.0);
  if (part == 1.0) return;
  const std::int64_t head =
      import.has("model.head_dim")
          ? import.integer("model.head_dim")
          : import.integer(megatron::kHidden.ours) / import.integer(megatron::kHeads.ours);
  import.derive({"rotary_percent", arguments.written("rotary_percent")}, "model.rotary_dim",
                static_cast<std::int64_t>(static_cast<double>(head) * part));
}

std::int64_t import_layers(MegatronArguments& arguments, const MegatronPattern& pattern,
                           Import& import) {
  using megatron::kLayers;
  if (!pattern.is_there()) return require(arguments, kLayers, kForeignDegree, import);
  (void)arguments.integer(kLayers.theirs, kForeignDegree);
  import.derive({pattern.key, pattern.letters}, kLayers.ours, pattern.num_layers(),
                "a letter for each");
  return pattern.num_layers();
}

void import_depths(MegatronArguments& arguments, const MegatronPattern& pattern, Import& import) {
  const NamePair depths = {"mtp_num_layers", "model.mtp_num_layers"};
  if (pattern.num_depths > 0) {
    (void)arguments.integer(depths.theirs, kForeignCount);
    import.derive({pattern.key, pattern.depth}, depths.ours, pattern.num_depths);
  } else if (pattern.is_there()) {
    if (arguments.integer(depths.theirs, kForeignCount).value_or(0) == 0) return;
    import.warn(arguments.at(depths.theirs),
                "the pattern has no letters of a depth, so there is "
                "none");
    return;
  } else if (!take_integer(arguments, depths, kForeignDegree, import)) {
    return;
  }
  take_number(arguments, {"mtp_loss_scaling_factor", "model.mtp_loss_scaling_factor"}, import);
}

bool has_dense_layers(MegatronArguments& arguments, const MegatronPattern& pattern,
                      std::int64_t num_layers) {
  if (pattern.is_there()) return pattern.has('-');
  const auto has_some = [&](const char* name) {
    return arguments.integer(name, kForeignDegree).has_value();
  };
  if (!has_some(megatron::kExperts.theirs) && !has_some("num_moe_experts")) return true;
  const std::string frequency = arguments.text(megatron::kExpertFrequency).value_or("1");
  const auto experts = read_frequency(frequency, num_layers, LayerPhase::first_of_each);
  return !experts || std::find(experts->begin(), experts->end(), false) != experts->end();
}

// The width of a dense MLP, which is written where a layer has one.
std::int64_t import_dense_width(MegatronArguments& arguments, const MegatronBlocks& blocks,
                                bool is_needed, std::int64_t hidden, Import& import) {
  using megatron::kFfn;
  const bool is_read = is_needed || !arguments.integer(megatron::kExpertFfn.theirs, kForeignSize);
  if (const auto given = arguments.integer(kFfn.theirs, kForeignSize)) {
    if (is_needed) {
      import.take(arguments.at(kFfn.theirs), kFfn.ours, *given);
    } else if (!is_read) {
      import.ignore(arguments.at(kFfn.theirs), "no layer has a dense MLP");
    }
    return *given;
  }
  // A gated MLP has two thirds of this width, as a multiple of 64.
  const std::int64_t width = blocks.is_gated() ? 4 * hidden * 2 / 3 / 64 * 64 : 4 * hidden;
  if (width == 0 && is_read) {
    throw_problem("E1363", arguments.where(megatron::kHidden.theirs),
                  fmt::format("hidden_size {} leaves a gated MLP no whole 64s", hidden),
                  "add --ffn_hidden_size, the width of the MLP");
  }
  if (is_needed) {
    import.derive({kFfn.theirs, "(not there)"}, kFfn.ours, width, "Megatron-LM's default");
  }
  return width;
}

// Writes the model section. Returns the parts of it that no scenario can express.
std::vector<std::string> import_megatron_model(MegatronArguments& arguments, const MegatronRun& run,
                                               Import& import) {
  std::vector<std::string> limits;
  const MegatronPattern pattern = read_megatron_pattern(arguments);
  const MegatronBlocks blocks = read_megatron_blocks(arguments, pattern);
  import_megatron_blocks(blocks, import, limits);
  const std::int64_t num_layers = import_layers(arguments, pattern, import);
  import_depths(arguments, pattern, import);
  const std::int64_t hidden = require(arguments, megatron::kHidden, kForeignSize, import);
  const std::int64_t dense_width = import_dense_width(
      arguments, blocks, has_dense_layers(arguments, pattern, num_layers), hidden, import);
  import_attention(arguments, blocks, import, pattern, limits);
  import_vocabulary(arguments, run, import);
  require(arguments, megatron::kLength, kForeignSize, import);
  if (!blocks.is_llama()) take_integer(arguments, megatron::kPositions, kForeignSize, import);
  (void)arguments.integer(megatron::kPositions.theirs, kForeignSize);
  const bool untied = arguments.truth(megatron::kUntied.theirs);
  import.derive({megatron::kUntied.theirs, untied ? "True" : "False"}, megatron::kUntied.ours,
                !untied);
  take_number(arguments, {"norm_epsilon", "model.norm_epsilon"}, import);
  if (blocks.rotary) import_rotary(arguments, import);
  import_experts(arguments, dense_width, import, limits);
  import_megatron_layers(arguments, blocks, pattern, import, limits);
  if (blocks.is_llama() && blocks.biased && import.has("model.num_experts")) {
    import.derive({"disable_bias_linear", "False"}, "model.moe_expert_bias", true);
    if (import.has(megatron::kExpertLatent.ours)) {
      const std::int64_t latent = import.integer(megatron::kExpertLatent.ours);
      limits.push_back(fmt::format(
          "{} {} without disable_bias_linear: biases of its projections, {} parameters in each "
          "layer with experts",
          megatron::kExpertLatent.theirs, latent, latent + hidden));
    }
  }
  return limits;
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The first step of a run compiles, allocates and connects.
std::vector<double> settled(const std::vector<double>& values) {
  if (values.size() < 2) return values;
  return {values.begin() + 1, values.end()};
}

void import_measured(const MegatronRun& run, Import& import) {
  if (!run.step_ms.empty()) {
    const std::vector<double> steps = settled(run.step_ms);
    import.measure({"elapsed time per iteration (ms)", fmt::format("{:.1f}", median_of(steps))},
                   fmt::format("step_time of {:.6g} s: median of {} steps without the first",
                               median_of(steps) / 1e3, steps.size()));
  }
  if (!run.tflops.empty()) {
    import.measure(
        {"throughput per GPU (TFLOP/s/GPU)", fmt::format("{:.1f}", median_of(settled(run.tflops)))},
        "the run's own count");
  }
  if (run.rank_parameters > 0) {
    import.measure({"parameters on rank (0, 0)", std::to_string(run.rank_parameters)},
                   "of its tensor and pipeline part");
  }
}

ForeignGpus gpus_of(MegatronArguments& arguments) {
  if (const auto world = arguments.integer("world_size", kForeignDegree))
    return {*world, "world_size"};
  const auto per_node = arguments.integer("nproc_per_node", kForeignDegree);
  const auto nodes = arguments.integer("nnodes", kForeignDegree);
  if (!per_node) return {};
  return {*per_node * nodes.value_or(1), "nnodes x nproc_per_node"};
}

}  // namespace

void import_megatron(const ImportRequest& request, Import& import) {
  const std::string& file = request.files.front();
  const SourceText source = {file, read_foreign_text(file)};
  MegatronArguments arguments = read_megatron_arguments(source);
  const MegatronRun run = read_megatron_run(source.text);
  std::vector<std::string> inexpressible;
  if (request.model.empty()) {
    inexpressible = import_megatron_model(arguments, run, import);
  } else {
    import_named_model(request.model, request.approximate, import);
    if (const auto length = arguments.integer(megatron::kLength.theirs, kForeignSize)) {
      import.take({megatron::kLength.theirs, std::to_string(*length)}, megatron::kLength.ours,
                  *length);
    }
  }
  const std::vector<std::string> training = megatron_training_limits(arguments);
  inexpressible.insert(inexpressible.end(), training.begin(), training.end());
  refuse_or_warn(inexpressible, file, request.approximate, import);
  const std::int64_t gpus = import_system(request, gpus_of(arguments), import);
  import_megatron_layout(arguments, gpus, import);
  import_megatron_training(arguments, import);
  import_measured(run, import);
  tell_unread_megatron(arguments, import);
}

}  // namespace shardsim
