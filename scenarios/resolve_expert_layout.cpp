#include <cstdint>
#include <string>

#include "strategies/model/routing.hpp"

#include "scenarios/resolve.hpp"
#include "scenarios/stage_places.hpp"

// How ranks share the experts of a layer, and how tokens reach them.
namespace shardsim {

namespace {

// Slices of experts.
void check_slices(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const ModelSpec& m = r.scenario.model;
  if (p.etp == 1) return;
  constexpr const char* kPath = "parallelism.etp";
  if (r.good("model.moe_ffn_hidden_size") && m.moe_ffn_hidden_size % p.etp != 0) {
    r.problem("E0203", kPath,
              "etp (" + text_of(p.etp) + ") does not divide an expert's " +
                  text_of(m.moe_ffn_hidden_size) + " elements (model.moe_ffn_hidden_size)",
              "try " + divisors(m.moe_ffn_hidden_size, m.moe_ffn_hidden_size));
  }
  if (r.good("model.moe_expert_bias") && m.moe_expert_bias) {
    r.problem("E0206", kPath,
              "the bias of an expert's output (model.moe_expert_bias) would be added once by each "
              "of its slices",
              "use etp 1, or experts without biases");
  }
  if (r.good("training.optimizer") && r.scenario.training.uses_muon()) {
    r.problem("E0206", kPath,
              "optimizer \"muon\" orthogonalizes whole matrices of experts, which etp cuts",
              "use etp 1, or another optimizer");
  }
}

// One copy of a token for a node.
void check_dispatch(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const ModelSpec& m = r.scenario.model;
  constexpr const char* kPath = "parallelism.expert_dispatch";
  if (!r.all_good({kPath, "parallelism.ep", "parallelism.etp"}) ||
      p.expert_dispatch != ExpertDispatch::per_node) {
    return;
  }
  const auto refuse = [&](const std::string& cause, const std::string& fix) {
    r.problem("E0206", kPath, cause, fix + ", or expert_dispatch per_expert");
  };
  if (p.ep > 1 && p.etp > 1) {
    refuse("ranks with slices of the same experts (etp " + text_of(p.etp) +
               ") gather rows of each expert, and per_node sends rows of tokens",
           "use etp 1");
  }
  if (r.good("model.moe_capacity_factor") && m.moe_capacity_factor > 0.0) {
    refuse(
        "a capacity (model.moe_capacity_factor) fills up rows of each expert, and per_node sends "
        "rows of tokens",
        "set moe_capacity_factor to 0");
  }
  if (r.good("model.moe_weight_on_input") && m.moe_weight_on_input) {
    refuse(
        "weights on inputs (model.moe_weight_on_input) differ by expert, and per_node sends one "
        "copy for many",
        "leave moe_weight_on_input out");
  }
  if (r.good("parallelism.rank_order") && p.rank_order == "dp-tp-pp") {
    refuse("with rank_order dp-tp-pp the ranks of an expert group are no neighbours",
           "use rank_order tp-dp-pp");
  }
  const RecipeRow& recipe = row_of(dispatch_recipe_of(p, p.ep));
  const std::int64_t width = m.moe_latent_size > 0 ? m.moe_latent_size : m.hidden_size;
  if (recipe.block > 0 && r.all_good({"parallelism.expert_payload", "model.hidden_size"}) &&
      width % recipe.block != 0) {
    r.problem("E0203", "parallelism.expert_payload",
              std::string(recipe.name) + " has a scale for each " + text_of(recipe.block) +
                  " elements, and experts read rows of " + text_of(width),
              "use rows of a multiple, or expert_payload training");
  }
  if (p.ep == 1 || !r.good("system.gpus_per_node")) return;
  const std::int64_t of_node = r.scenario.system.gpus_per_node;
  if (dispatch_nodes_of(p, of_node) > 0) return;
  r.problem("E0203", kPath,
            "an expert group of " + text_of(p.ep) + " ranks (ep) does not lie evenly on nodes of " +
                text_of(of_node) + " GPUs",
            "use an ep that divides system.gpus_per_node or is a multiple of it");
}

void check_degree(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const ModelSpec& m = r.scenario.model;
  if (!r.all_good({"parallelism.ep", "parallelism.etp"}) || p.ep * p.etp == 1) return;
  const char* const path = p.ep > 1 ? "parallelism.ep" : "parallelism.etp";
  if (m.num_experts == 0) {
    r.problem("E0206", path,
              (p.ep > 1 ? "ep is " + text_of(p.ep) : "etp is " + text_of(p.etp)) +
                  ", but the model has no experts to share out",
              "leave it out, or give the model num_experts");
    return;
  }
  check_slices(r);
  if (m.num_experts % p.ep != 0) {
    r.problem("E0203", "parallelism.ep",
              "ep (" + text_of(p.ep) + ") does not divide the model's " + text_of(m.num_experts) +
                  " experts",
              "try " + divisors(m.num_experts, m.num_experts));
  }
  if (!r.all_good({"parallelism.dp_shard", "parallelism.cp", "parallelism.tp"})) return;
  const std::int64_t ranks = p.dp_shard * p.cp * p.tp;
  if (ranks % (p.ep * p.etp) != 0) {
    const bool are_both = p.etp > 1;
    r.problem("E0203", path,
              (are_both ? "ep (" + text_of(p.ep) + ") x etp (" + text_of(p.etp) + ")"
                        : "ep (" + text_of(p.ep) + ")") +
                  " does not divide the " + text_of(ranks) + " ranks that it regroups: dp_shard " +
                  text_of(p.dp_shard) + " x cp " + text_of(p.cp) + " x tp " + text_of(p.tp),
              are_both ? "use degrees whose product divides them"
                       : "try " + divisors(ranks, m.num_experts));
  }
}

}  // namespace

void check_expert_layout(Reading& r) {
  check_degree(r);
  if (r.scenario.model.num_experts > 0) check_dispatch(r);
}

}  // namespace shardsim
