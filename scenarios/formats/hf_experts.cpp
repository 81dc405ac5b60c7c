#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/hf_model.hpp"
#include "scenarios/formats/import.hpp"

// The experts of a model from Hugging Face's config.json, and their router.
namespace shardsim {

namespace {

// As DeepSeek-V3 was trained (arXiv 2412.19437, section 4.2): no file has the rate.
constexpr double kUpdateRate = 1e-3;

// Defaults of the fields are not written.
void write_router(ForeignObject& config, const HfModel& model, Import& import) {
  const RouterOptions& router = model.router;
  const ForeignValue family = {"model_type", model.model_type};
  if (router.score == RouterScore::sigmoid) {
    const ForeignValue cause = config.has("scoring_func") ? config.at("scoring_func") : family;
    import.derive(cause, "model.moe_router_score", std::string("sigmoid"));
  }
  if (!router.normalised) {
    take_under(config, {"norm_topk_prob"}, "model.moe_router_normalised", false, import);
  }
  if (router.scaling_factor != 1.0) {
    take_under(config, {"routed_scaling_factor", "moe_router_scaling_factor"},
               "model.moe_router_scaling_factor", router.scaling_factor, import);
  }
  if (router.has_groups()) {
    take_under(config, {"n_group"}, "model.moe_router_num_groups", router.num_groups, import);
    take_under(config, {"topk_group"}, "model.moe_router_group_topk", router.group_topk, import);
    if (router.group_score == GroupScore::maximum) {
      import.derive(family, "model.moe_router_group_score", std::string("maximum"));
    }
  }
  if (router.has_choice_bias()) {
    import.assume("how fast biases of the choice follow the loads",
                  "model.moe_router_bias_update_rate", kUpdateRate,
                  "the file says that there are biases; this is the rate of DeepSeek-V3");
  }
}

// NemotronHMoE in huggingface/transformers, models/nemotron_h/modular_nemotron_h.py at
// 008d9e9577b0: the shared expert and the projections to latents and back have them, routed experts
// none.
void add_bias_limit(const HfModel& model, std::vector<std::string>& list) {
  std::vector<const char*> places;
  std::int64_t biases = 0;
  if (model.shared_ffn > 0) {
    places.push_back("the shared expert");
    biases += (model.shape.matrices() - 1) * model.shared_ffn + model.hidden;
  }
  if (model.latent > 0) {
    places.push_back("the projections of moe_latent_size");
    biases += model.latent + model.hidden;
  }
  if (places.empty()) return;
  const std::int64_t layers = std::count_if(
      model.layers.begin(), model.layers.end(),
      [](const HfLayer& layer) { return layer.feed_forward == FeedForward::experts; });
  list.push_back(
      fmt::format("mlp_bias: biases of {} ({} parameters and 0 FLOPs per token forward in all {} "
                  "layers with experts)",
                  fmt::join(places, " and of "), layers * biases, layers));
}

}  // namespace

void take_under(ForeignObject& config, const std::vector<std::string>& keys,
                const std::string& path, const FieldValue& value, Import& import) {
  for (const std::string& key : keys) {
    if (config.has(key)) return import.take(config.at(key), path, value);
  }
  import.derive({keys.front(), "(not there)"}, path, value, "the family's default");
}

void write_hf_experts(ForeignObject& config, const HfModel& model, Import& import) {
  take_under(config, {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"},
             "model.num_experts", model.num_experts, import);
  take_under(config,
             {"num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_top_k", "moe_topk"},
             "model.num_experts_per_token", model.experts_per_token, import);
  take_under(config, {"moe_intermediate_size", "intermediate_size"}, "model.moe_ffn_hidden_size",
             model.expert_ffn, import);
  if (model.latent > 0) {
    take_under(config, {"moe_latent_size"}, "model.moe_latent_size", model.latent, import);
  }
  if (!model.shared_width.empty() && model.shared_ffn > 0) {
    const ForeignValue width = config.at(model.shared_width);
    const bool is_all = width.written.empty() || width.written == std::to_string(model.shared_ffn);
    if (is_all) {
      take_under(config, {model.shared_width}, "model.moe_shared_ffn_hidden_size", model.shared_ffn,
                 import);
    } else {
      import.derive(width, "model.moe_shared_ffn_hidden_size", model.shared_ffn,
                    "of all shared experts together");
    }
    if (model.shared_gate) {
      import.derive({"model_type", model.model_type}, "model.moe_shared_gate", true);
    }
  } else if (model.shared_ffn > 0) {
    take_under(
        config,
        {"n_shared_experts", "moe_num_shared_experts", "num_shared_experts", "num_shared_expert"},
        "model.num_shared_experts", model.shared_ffn / model.expert_ffn, import);
  }
  if (model.expert_bias) {
    import.derive({"model_type", model.model_type}, "model.moe_expert_bias", true);
    import.derive({"model_type", model.model_type}, "model.moe_router_logit_bias", true);
  }
  if (model.weight_on_input) {
    import.derive({"model_type", model.model_type}, "model.moe_weight_on_input", true);
  }
  write_router(config, model, import);
  if (!model.reads_aux_loss) {
    if (config.has("router_aux_loss_coef")) {
      import.ignore(config.at("router_aux_loss_coef"), "its code in transformers does not read it");
    }
  } else if (const auto coefficient = config.number("router_aux_loss_coef")) {
    const double ours = *coefficient * static_cast<double>(model.experts_per_token) /
                        static_cast<double>(model.num_layers);
    import.derive(config.at("router_aux_loss_coef"), "model.moe_aux_loss_coeff", ours,
                  "a sum over layers here, a mean over layers there");
  }
}

void add_hf_expert_limits(ForeignObject& config, const HfModel& model,
                          std::vector<std::string>& list) {
  const RouterOptions& router = model.router;
  constexpr std::int64_t kSummed = 2;  // Experts that make a group's score in transformers.
  if (router.has_groups() && router.group_score == GroupScore::sum &&
      model.experts_per_token != kSummed * router.group_topk) {
    list.push_back(fmt::format("groups whose score is that of two experts (here of {} / {})",
                               model.experts_per_token, router.group_topk));
  }
  const std::string score = config.text("scoring_func").value_or("softmax");
  if (score != "softmax" && score != "sigmoid") {
    list.push_back("scoring_func " + score + " (here it is softmax or sigmoid)");
  }
  if (model.mlp_bias) add_bias_limit(model, list);
}

}  // namespace shardsim
