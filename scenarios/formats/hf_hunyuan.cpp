#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/hf_model.hpp"
#include "scenarios/formats/hf_size_count.hpp"
#include "scenarios/formats/import.hpp"

// Keys that Hunyuan's mixture of experts alone has. Names are those of HunYuanMoEV1Config, and the
// meaning that of modular_hunyuan_v1_moe.py, in huggingface/transformers at 008cd60e348a and
// 05bf8f6478e9: each layer has experts, and a shared MLP of intermediate_size. Published files say
// how many experts wide that is, by num_shared_expert: HunYuanMLP in copies of Tencent's own
// modeling_hunyuan.py, where a list has a number for each layer.
namespace shardsim {

namespace {

constexpr const char* kSharedExperts = "num_shared_expert";

void read_hunyuan(ForeignObject& config, HfModel& model) {
  if (const auto shared = config.integer_of_layers(kSharedExperts, kForeignCount)) {
    model.shared_ffn = *shared * model.expert_ffn;
    return;
  }
  model.shared_width = "intermediate_size";
  model.shared_ffn = model.ffn;
}

// One layer of each cla_share_factor makes keys and values, and those up to the next read them: so
// modeling_hunyuan.py of Tencent's own models.
std::string shared_keys_words(ForeignObject& config, const HfModel& model) {
  SizeKeys keys;
  const std::int64_t factor = keys(config, "cla_share_factor");
  if (!keys.are_there()) return keys.words();
  const std::int64_t makers = (model.num_layers - 1) / factor + 1;
  const std::int64_t sharing = model.num_layers - makers;
  const SizeCount matrices =
      2 * SizeCount(sharing) * model.hidden * model.key_value_heads * model.head_dim;
  return fmt::format("{} of {} layers lack {} of keys and values", sharing, model.num_layers,
                     cost_words(matrices, 2 * matrices));
}

void add_hunyuan_limits(ForeignObject& config, const HfModel& model,
                        std::vector<std::string>& list) {
  if (config.truth("use_mla").value_or(false)) {
    list.emplace_back(
        "use_mla: latent attention, which its code in transformers does not have (no formula for "
        "its size is known here)");
  }
  if (config.truth("use_cla").value_or(false)) {
    list.push_back(fmt::format("use_cla: layers that share keys and values ({})",
                               shared_keys_words(config, model)));
  }
}

void write_hunyuan(ForeignObject& config, const HfModel& model, Import& import) {
  if (config.has("use_mla")) import.ignore(config.at("use_mla"), "attention has no latents");
  if (config.has("cla_share_factor")) {
    import.ignore(config.at("cla_share_factor"), "no layers share keys and values");
  }
  if (config.has("org_vocab_size")) {
    import.ignore(config.at("org_vocab_size"), "the vocabulary ahead of filling it up");
  }
  if (config.has("use_mixed_mlp_moe")) {
    import.ignore(config.at("use_mixed_mlp_moe"), "its code in transformers does not read it");
  }
  for (const char* key : {"class_num", "dense_list", "pool_type"}) {
    if (config.has(key)) import.ignore(config.at(key), "of a head that classifies");
  }
  if (model.shape.query_key_norm == QueryKeyNorm::none) return;
  import.warn({"model_type", model.model_type},
              "norms of queries and keys come ahead of rotary positions here, and behind them "
              "there: costs are the same, results are not");
}

}  // namespace

const HfOwnKeys kHfHunyuanKeys = {read_hunyuan, add_hunyuan_limits, write_hunyuan};

}  // namespace shardsim
