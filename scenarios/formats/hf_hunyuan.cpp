#include <string>
#include <vector>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/hf_model.hpp"
#include "scenarios/formats/import.hpp"

// Keys that Hunyuan's mixture of experts alone has. Names are those of HunYuanMoEV1Config, and the
// meaning that of modular_hunyuan_v1_moe.py, in huggingface/transformers at 008cd60e348a and
// 05bf8f6478e9: each layer has experts, and a shared MLP of intermediate_size.
namespace shardsim {

namespace {

void read_hunyuan(ForeignObject& /*config*/, HfModel& model) {
  model.shared_width = "intermediate_size";
  model.shared_ffn = model.ffn;
}

void add_hunyuan_limits(ForeignObject& /*config*/, const HfModel& /*model*/,
                        std::vector<std::string>& /*list*/) {}

void write_hunyuan(ForeignObject& config, const HfModel& model, Import& import) {
  if (config.has("use_mixed_mlp_moe")) {
    import.ignore(config.at("use_mixed_mlp_moe"), "its code in transformers does not read it");
  }
  if (model.shape.query_key_norm == QueryKeyNorm::none) return;
  import.warn({"model_type", model.model_type},
              "norms of queries and keys come ahead of rotary positions here, and behind them "
              "there: costs are the same, results are not");
}

}  // namespace

const HfOwnKeys kHfHunyuanKeys = {read_hunyuan, add_hunyuan_limits, write_hunyuan};

}  // namespace shardsim
