#include <algorithm>
#include <string>

#include "strategies/model/low_precision.hpp"

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

// Reports dimensions that are cut within a block of scales. The last block of a whole may be
// shorter.
void check_blocks(Reading& r) {
  const Scenario& s = r.scenario;
  const std::int64_t block = recipe_of(s).block;
  if (block == 0) return;
  const ModelSpec& m = s.model;
  const ParallelismSpec& p = s.parallelism;
  struct Dimension {
    const char* field;
    const char* what;
    std::int64_t whole;
    std::int64_t parts;
  };
  const std::int64_t groups = std::max<std::int64_t>(m.num_query_groups, 1);
  const std::int64_t tokens = s.training.micro_batch_size * m.seq_len;
  for (const Dimension& each : {
           Dimension{"model.ffn_hidden_size", "channels", m.ffn_hidden_size, p.tp},
           Dimension{"model.num_attention_heads", "elements of all heads' values",
                     m.num_attention_heads * m.value_head_dim, p.tp},
           Dimension{"model.num_query_groups", "elements of all keys", groups * m.head_dim,
                     std::min(p.tp, groups)},
           Dimension{"model.moe_ffn_hidden_size", "channels", m.moe_ffn_hidden_size, p.etp},
           Dimension{"model.moe_shared_ffn_hidden_size", "channels", m.moe_shared_ffn_hidden_size,
                     p.tp},
           Dimension{"model.seq_len", "tokens of a microbatch", tokens,
                     p.cp * (p.sequence_parallel ? p.tp : 1)},
       }) {
    if (!r.good(each.field) || each.parts == 1 || each.whole % (each.parts * block) == 0) continue;
    r.problem("E0226", each.field,
              text_of(each.whole) + " " + each.what + " are cut into " + text_of(each.parts) +
                  " parts, but " + s.training.fp8_recipe + " has a scale for every " +
                  text_of(block),
              "use parts of a multiple of " + text_of(block) +
                  ", or a recipe with a scale for whole tensors");
  }
}

// Whether products of this architecture apply the scales of the recipe's blocks.
bool has_recipe(const std::string& architecture, const std::string& recipe) {
  const bool is_before = architecture == "ampere" || architecture == "hopper";
  return !is_before || recipe != "mxfp8";
}

}  // namespace

void resolve_low_precision(Reading& r) {
  TrainingSpec& t = r.scenario.training;
  derive(r, kRecipeField, t.fp8_recipe,
         t.has_low_products() ? usual_recipe(r.scenario) : std::string("none"));
  if (!r.good(kRecipeField) || !t.has_low_products()) return;
  const bool is_fp4 = t.precision == Precision::nvfp4;
  if (is_fp4 != (t.fp8_recipe == "nvfp4") || t.fp8_recipe == "none") {
    r.problem(
        "E0223", kRecipeField,
        "fp8_recipe " + t.fp8_recipe + " does not go with precision " + to_string(t.precision),
        is_fp4 ? "leave fp8_recipe out" : "leave it out, or use another recipe");
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
    r.problem("E0224", "training.precision",
              std::string("products in ") + to_string(t.precision) +
                  " have prices, but no data yet: they cannot be verified",
              "use execution.tensors \"meta\", or precision bf16");
    return;
  }
  if (r.good("model.family") && r.scenario.model.family == ModelFamily::mlp) {
    r.problem("E0224", "training.precision",
              "model.family mlp has no layers whose products could be in low precision",
              "use precision bf16, or another family");
    return;
  }
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
