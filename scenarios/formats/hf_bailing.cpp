#include <string>
#include <vector>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/hf_model.hpp"
#include "scenarios/formats/import.hpp"

// Keys that Ling 2.0 alone has. Names and defaults are those of BailingMoeV2Config, and the meaning
// that of modeling_bailing_moe_v2.py, in NVIDIA-NeMo/Megatron-Bridge at 067f987.
namespace shardsim {

namespace {

constexpr std::int64_t kRouterGroups = 8;
constexpr std::int64_t kChosenGroups = 4;

void read_bailing(ForeignObject& config, HfModel& model) {
  model.query_bias = config.truth("use_qkv_bias").value_or(false);
  model.output_bias = config.truth("use_bias").value_or(false);
  if (!config.has("n_group")) model.router.num_groups = kRouterGroups;
  if (!config.has("topk_group")) model.router.group_topk = kChosenGroups;
  const bool has_bias = config.truth("moe_router_enable_expert_bias").value_or(true);
  model.router.bias_update_rate = has_bias ? 1.0 : 0.0;
}

void add_bailing_limits(ForeignObject& config, const HfModel& /*model*/,
                        std::vector<std::string>& list) {
  const std::string score = config.text("score_function").value_or("sigmoid");
  if (score != "sigmoid") list.push_back("score_function " + score + " (its code has sigmoid)");
}

void write_bailing(ForeignObject& config, const HfModel& /*model*/, Import& import) {
  const double weight = config.number("mtp_loss_scaling_factor").value_or(0.0);
  if (weight > 0.0) {
    import.take(config.at("mtp_loss_scaling_factor"), "model.mtp_loss_scaling_factor", weight);
  }
}

}  // namespace

const HfOwnKeys kHfBailingKeys = {read_bailing, add_bailing_limits, write_bailing};

}  // namespace shardsim
