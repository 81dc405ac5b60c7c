#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/hf_model.hpp"
#include "scenarios/formats/import.hpp"

// Keys that Ling alone has. Names and defaults are those of BailingMoeConfig and its
// modeling_bailing_moe.py, in inclusionAI/Ling at 69823a612234, and of Ling 2.0's
// BailingMoeV2Config and modeling_bailing_moe_v2.py, in NVIDIA-NeMo/Megatron-Bridge at 067f987.
// Each shared expert is moe_shared_expert_intermediate_size wide where a file has that: BailingMoE
// of vllm-project/vllm's bailing_moe.py, and of SGLang's.
namespace shardsim {

namespace {

constexpr std::int64_t kRouterGroups = 8;
constexpr std::int64_t kChosenGroups = 4;
constexpr const char* kSharedWidth = "moe_shared_expert_intermediate_size";

void read_biases(ForeignObject& config, bool is_usual, HfModel& model) {
  model.query_bias = config.truth("use_qkv_bias").value_or(false);
  model.output_bias = config.truth("use_bias").value_or(is_usual);
}

// Shared experts have been read as if they were as wide as the others.
void read_shared_width(ForeignObject& config, HfModel& model) {
  const auto width = config.integer(kSharedWidth, kForeignSize);
  if (!width || *width == model.expert_ffn || model.shared_ffn == 0) return;
  model.shared_ffn = model.shared_ffn / model.expert_ffn * *width;
  model.shared_width = kSharedWidth;
}

void add_score_limit(ForeignObject& config, const char* own, std::vector<std::string>& list) {
  const std::string score = config.text("score_function").value_or(own);
  if (score == own) return;
  list.push_back(fmt::format("score_function {} (its code has {})", score, own));
}

void write_shared_width(ForeignObject& config, const HfModel& model, Import& import) {
  if (!model.shared_width.empty() || !config.has(kSharedWidth)) return;
  import.ignore(config.at(kSharedWidth), "the width of other experts, times num_shared_experts");
}

void read_ling(ForeignObject& config, HfModel& model) {
  read_biases(config, true, model);
  read_shared_width(config, model);
}

void add_ling_limits(ForeignObject& config, const HfModel& /*model*/,
                     std::vector<std::string>& list) {
  add_score_limit(config, "softmax", list);
}

void read_bailing(ForeignObject& config, HfModel& model) {
  read_biases(config, false, model);
  read_shared_width(config, model);
  if (!config.has("n_group")) model.router.num_groups = kRouterGroups;
  if (!config.has("topk_group")) model.router.group_topk = kChosenGroups;
  const bool has_bias = config.truth("moe_router_enable_expert_bias").value_or(true);
  model.router.bias_update_rate = has_bias ? 1.0 : 0.0;
}

void add_bailing_limits(ForeignObject& config, const HfModel& /*model*/,
                        std::vector<std::string>& list) {
  add_score_limit(config, "sigmoid", list);
}

void write_bailing(ForeignObject& config, const HfModel& model, Import& import) {
  write_shared_width(config, model, import);
  const double weight = config.number("mtp_loss_scaling_factor").value_or(0.0);
  if (weight > 0.0) {
    import.take(config.at("mtp_loss_scaling_factor"), "model.mtp_loss_scaling_factor", weight);
  }
}

}  // namespace

const HfOwnKeys kHfLingKeys = {read_ling, add_ling_limits, write_shared_width};
const HfOwnKeys kHfBailingKeys = {read_bailing, add_bailing_limits, write_bailing};

std::string hf_family_name(ForeignObject& config) {
  const std::string model_type = config.text("model_type").value_or("");
  const JsonValue* classes = config.find("architectures");
  if (model_type != "bailing_moe" || classes == nullptr || !classes->is_array()) return model_type;
  const bool is_second =
      std::any_of(classes->array().begin(), classes->array().end(), [](const JsonValue& each) {
        return each.is_string() && each.string() == "BailingMoeV2ForCausalLM";
      });
  return is_second ? "bailing_moe_v2" : model_type;
}

}  // namespace shardsim
