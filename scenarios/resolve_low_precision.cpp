#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "strategies/model/activation_store.hpp"
#include "strategies/model/low_precision.hpp"
#include "strategies/model/recompute.hpp"

#include "scenarios/resolve.hpp"

namespace shardsim {

namespace {

constexpr const char* kRecipeField = "training.fp8_recipe";

// The recipe that "fp8" alone means.
std::string usual_recipe(const Scenario& s) {
  if (s.training.precision == Precision::nvfp4) return "nvfp4";
  const std::string& architecture = s.system.device.architecture;
  const bool has_blocks = architecture == "blackwell" || architecture == "blackwell_ultra";
  return has_blocks ? "mxfp8" : "tensorwise";
}

const RecipeRow& recipe_of(const Scenario& s) {
  const auto all = all_recipes();
  return *std::ranges::find(all, s.training.fp8_recipe,
                            [](const RecipeRow& row) { return std::string(row.name); });
}

// A dimension that scales of blocks lie along, and into how many parts ranks cut it.
struct Dimension {
  const char* field;
  const char* what;
  std::int64_t whole;
  std::int64_t parts;
};

// Channels of feed-forwards.
std::vector<Dimension> channels_of(const Scenario& s) {
  const ModelSpec& m = s.model;
  const ParallelismSpec& p = s.parallelism;
  std::vector<Dimension> dimensions = {
      {"model.ffn_hidden_size", "channels", m.ffn_hidden_size, p.tp}};
  if (m.num_experts > 0) {
    dimensions.push_back({"model.moe_ffn_hidden_size", "channels", m.moe_ffn_hidden_size, p.etp});
    dimensions.push_back(
        {"model.moe_shared_ffn_hidden_size", "channels", m.moe_shared_ffn_hidden_size, p.tp});
  }
  return dimensions;
}

std::vector<Dimension> dimensions_of(const Scenario& s) {
  const ModelSpec& m = s.model;
  const ParallelismSpec& p = s.parallelism;
  const std::int64_t groups = std::max<std::int64_t>(m.num_query_groups, 1);
  const std::int64_t tokens = s.training.micro_batch_size * m.seq_len;
  std::vector<Dimension> dimensions = {
      {"model.num_attention_heads", "elements of all heads' values",
       m.num_attention_heads * m.value_head_dim, p.tp},
      {"model.num_query_groups", "elements of all keys", groups * m.head_dim,
       std::min(p.tp, groups)},
      {"model.seq_len", "tokens of a microbatch", tokens, p.cp * (p.sequence_parallel ? p.tp : 1)}};
  if (m.num_experts > 0) {
    dimensions.push_back({"model.moe_latent_size", "elements of a latent", m.moe_latent_size, 1});
  }
  std::ranges::copy(channels_of(s), std::back_inserter(dimensions));
  return dimensions;
}

// Reports dimensions that are cut within a block of scales. In a plan the last block of a whole may
// be shorter. With data it may not, and a rank's two parts of a sequence must be whole blocks, too.
void check_blocks(Reading& r) {
  const Scenario& s = r.scenario;
  const std::int64_t block = recipe_of(s).block;
  if (block == 0) return;
  std::vector<Dimension> dimensions = dimensions_of(s);
  const bool has_data = s.execution.tensors == TensorMode::real;
  if (has_data) {
    dimensions.push_back({"model.hidden_size", "elements of a token", s.model.hidden_size, 1});
    if (s.parallelism.cp > 1) {
      dimensions.push_back({"model.seq_len", "positions", s.model.seq_len, 2 * s.parallelism.cp});
    }
  }
  for (const Dimension& each : dimensions) {
    const bool is_whole = each.parts == 1 && !has_data;
    if (!r.good(each.field) || is_whole || each.whole % (each.parts * block) == 0) continue;
    const std::string parts = each.parts == 1
                                  ? " are no multiple of the block, but "
                                  : " are cut into " + text_of(each.parts) + " parts, but ";
    r.problem("E0226", each.field,
              text_of(each.whole) + " " + each.what + parts + s.training.fp8_recipe +
                  " has a scale for every " + text_of(block),
              "use parts of a multiple of " + text_of(block) +
                  ", or a recipe with a scale for whole tensors");
  }
}

// The same for inputs of activation functions that stay with scales of blocks.
void check_stored_blocks(Reading& r) {
  const TrainingSpec& t = r.scenario.training;
  if (!r.all_good({"training.activation_store", "parallelism.tp", "parallelism.etp"})) return;
  const std::int64_t block = block_of(t.activation_store);
  if (block == 0) return;
  for (const Dimension& each : channels_of(r.scenario)) {
    if (!r.good(each.field) || each.whole % (each.parts * block) == 0) continue;
    r.problem("E0226", "training.activation_store",
              text_of(each.whole) + " channels (" + each.field + ") of " + text_of(each.parts) +
                  " ranks are no multiples of " + text_of(block) + ", which share a scale",
              "use channels of a multiple, or activation_store e4m3");
  }
}

std::int64_t least_query_groups(const ModelSpec& model) {
  std::int64_t least = model.num_query_groups;
  for (const LayerSpec& layer : model.layers) {
    if (layer.heads.num_query_groups > 0) least = std::min(least, layer.heads.num_query_groups);
  }
  return least;
}

bool mixes_linearly(const ModelSpec& model) {
  return std::ranges::any_of(model.layers, [](const LayerSpec& layer) {
    return layer.mixer != Mixer::attention && layer.mixer != Mixer::none;
  });
}

// A part of low precision that cannot run with data.
struct Unmodelled {
  const char* field;
  std::string what;
  const char* fix;
};
constexpr const char* kAnotherRecipe =
    "use execution.tensors \"meta\", or fp8_recipe tensorwise, blockwise or mxfp8";

std::optional<Unmodelled> unmodelled_history(const Scenario& s) {
  const ParallelismSpec& p = s.parallelism;
  if (p.changes_algorithm() || p.is_elastic() || p.compresses()) {
    return Unmodelled{
        p.compresses() ? "parallelism.gradient_compression" : "parallelism.data_parallel",
        "fp8_recipe delayed with another algorithm than synchronous training", kAnotherRecipe};
  }
  if (s.training.amax_update == AmaxUpdate::step) return std::nullopt;
  if (s.training.recompute != Recompute::none) {
    return Unmodelled{"training.amax_update",
                      "amax_update microbatch with recomputation, which would read later scales",
                      "use amax_update step, or recompute none"};
  }
  if (p.schedule == "file") {
    return Unmodelled{
        "training.amax_update",
        "amax_update microbatch with a schedule_file, whose microbatches may have any order",
        "use amax_update step, or another schedule"};
  }
  return std::nullopt;
}

std::optional<Unmodelled> unmodelled_data(const Scenario& s) {
  const TrainingSpec& t = s.training;
  const bool is_delayed = t.fp8_recipe == "delayed";
  if (is_delayed) {
    if (auto history = unmodelled_history(s)) return history;
  }
  const bool is_exact = t.precision == Precision::fp64 && t.grad_reduce_dtype == DType::fp64;
  if ((is_delayed || t.fp8_recipe == "nvfp4") && !is_exact) {
    return Unmodelled{kRecipeField,
                      "fp8_recipe " + t.fp8_recipe + " with precision " + to_string(t.precision) +
                          " and grad_reduce_dtype " + to_string(t.grad_reduce_dtype),
                      "verify it with precision fp64 and grad_reduce_dtype fp64, or plan with "
                      "execution.tensors \"meta\""};
  }
  if (t.fp8_recipe == "nvfp4" && s.parallelism.tp > 1 && mixes_linearly(s.model)) {
    return Unmodelled{kRecipeField, "fp8_recipe nvfp4 and shares of the channels of linear mixers",
                      kAnotherRecipe};
  }
  if (s.model.parallel_block && s.model.mlp_output_scale != 1.0) {
    return Unmodelled{"model.mlp_output_scale", "a parallel block with model.mlp_output_scale",
                      "use execution.tensors \"meta\", or 1"};
  }
  const bool has_groups = s.model.family == ModelFamily::llama && s.model.kv_lora_rank == 0;
  if (has_groups && least_query_groups(s.model) < s.parallelism.tp) {
    return Unmodelled{
        "parallelism.tp",
        "copies of key and value heads, of whose gradient a rank quantizes its share alone",
        "use execution.tensors \"meta\", or no more ranks than key and value heads"};
  }
  return std::nullopt;
}

// Whether backward also reads what forward gathered: products run again, or units stay whole.
bool reads_both_copies(const Reading& r) {
  const TrainingSpec& t = r.scenario.training;
  if (!r.scenario.parallelism.reshard_after_forward || t.recompute == Recompute::full) return true;
  if (t.recompute == Recompute::none || !r.good("training.recompute_modules")) return false;
  const RecomputeModules modules = recompute_modules_of(t.recompute_modules);
  const ModelSpec& model = r.scenario.model;
  return modules.has(RecomputeModule::mlp) ||
         (modules.has(RecomputeModule::mla_up_proj) && model.kv_lora_rank > 0) ||
         (modules.has(RecomputeModule::moe) && model.num_experts > 0) ||
         (modules.has(RecomputeModule::shared_experts) && model.num_shared_experts > 0);
}

// Weights in 8 bits alone have owners, who cast their masters.
void check_quantized_parameters(Reading& r) {
  const char* const path = "training.quantized_parameters";
  const Scenario& s = r.scenario;
  const auto refuse = [&](const std::string& why, const char* fix) {
    r.problem("E0224", path, "quantized_parameters " + why, fix);
  };
  if (s.execution.tensors == TensorMode::real) {
    refuse("has prices, but no data yet, so nothing can be verified",
           "use execution.tensors \"meta\", or leave it out");
  }
  if (recipe_of(s).dtype != DType::fp8_e4m3) {
    refuse("is for fp8, not for " + s.training.fp8_recipe, "leave it out");
  }
  if (s.parallelism.offloads()) {
    refuse("casts masters and codes on the device", "leave them there: offload activations alone");
  }
  if (s.training.master_dtype() == s.training.dtype()) {
    refuse(std::string("needs masters beside weights, and precision ") +
               to_string(s.training.precision) + " has none",
           "use precision fp8");
  }
  if (s.training.uses_muon() || s.parallelism.changes_algorithm() || s.parallelism.is_elastic()) {
    refuse("is not combined with muon or with another data parallelism than synchronous",
           "leave it out");
  }
  if (!r.good("parallelism.zero_stage")) return;
  const int stage = s.parallelism.zero_stage;
  if (stage == 0 || (stage == 2 && !recipe_of(s).is_square())) {
    refuse("at zero_stage " + text_of(stage) +
               (stage == 0 ? ": every rank updates all weights"
                           : " and " + s.training.fp8_recipe +
                                 ": no whole gradient has room for gathered weights"),
           "use zero_stage 1 or 3");
  } else if (stage == 3 && !recipe_of(s).is_square() && reads_both_copies(r)) {
    refuse("with " + s.training.fp8_recipe +
               " gathers the copy that a pass reads, and backward would read both here",
           "use reshard_after_forward, and recompute no products");
  }
}

// Whether products of this architecture apply the scales of the recipe's blocks.
bool has_recipe(const std::string& architecture, const std::string& recipe) {
  const bool is_before = architecture == "ampere" || architecture == "hopper";
  return !is_before || recipe != "mxfp8";
}

}  // namespace

void resolve_low_precision(Reading& r) {
  check_stored_blocks(r);
  TrainingSpec& t = r.scenario.training;
  const bool is_low = t.precision >= Precision::fp8;
  derive(r, kRecipeField, t.fp8_recipe, is_low ? usual_recipe(r.scenario) : std::string("none"));
  if (!r.good(kRecipeField) || !t.has_low_products()) return;
  const bool is_fp4 = t.precision == Precision::nvfp4;
  const bool is_exact = t.precision == Precision::fp64;
  const bool is_other = is_fp4 != (t.fp8_recipe == "nvfp4") && !is_exact;
  if (is_other || t.fp8_recipe == "none" || (!is_low && !is_exact)) {
    r.problem(
        "E0223", kRecipeField,
        "fp8_recipe " + t.fp8_recipe + " does not go with precision " + to_string(t.precision),
        is_fp4   ? "leave fp8_recipe out"
        : is_low ? "leave it out, or use another recipe"
                 : "leave it out, or use precision fp8");
    return;
  }
  if (r.good("system.device.architecture") &&
      !has_recipe(r.scenario.system.device.architecture, t.fp8_recipe)) {
    r.problem("E0223", kRecipeField,
              "tensor cores of " + r.scenario.system.device.architecture +
                  " have no scales for blocks of 32 (mxfp8)",
              "use another recipe, or a device of Blackwell");
    return;
  }
  if (r.good("execution.tensors") && r.scenario.execution.tensors == TensorMode::real) {
    if (const auto unmodelled = unmodelled_data(r.scenario)) {
      r.problem(
          "E0224", unmodelled->field,
          unmodelled->what + ": there are prices, but no data yet, so nothing can be verified",
          unmodelled->fix);
      return;
    }
  }
  if (r.good("model.family") && r.scenario.model.family == ModelFamily::mlp) {
    r.problem("E0224", "training.precision",
              "model.family mlp has no layers whose products could be in low precision",
              "use precision bf16, or another family");
    return;
  }
  if (t.quantized_parameters) check_quantized_parameters(r);
  const std::int64_t kept = t.bf16_layers_at_start + t.bf16_layers_at_end;
  if (r.all_good(
          {"training.bf16_layers_at_start", "training.bf16_layers_at_end", "model.num_layers"}) &&
      kept > r.scenario.model.num_layers) {
    r.problem("E0225", "training.bf16_layers_at_start",
              text_of(kept) + " layers are to stay in bf16, but the model has " +
                  text_of(r.scenario.model.num_layers),
              "use fewer");
  }
  if (r.all_good({"parallelism.tp", "parallelism.etp", "parallelism.cp"})) check_blocks(r);
}

}  // namespace shardsim
