#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strategies/model/layer_options.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/router_options.hpp"

// Families of models in transformers, and what their files do not say.
namespace shardsim {

/// Sizes of a family's configuration class, for files that leave them out. 0: they must give them.
struct HfDefaults {
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;
  std::int64_t positions = 0;
};

class ForeignObject;
class Import;
struct HfModel;

/// Keys that a family alone has, beside those of all families.
struct HfOwnKeys {
  /// Reads them. REQUIRES: all else is read.
  void (*read)(ForeignObject& config, HfModel& model);
  /// Adds what no scenario can express of them, in sentences without a full stop.
  void (*add_limits)(ForeignObject& config, const HfModel& model, std::vector<std::string>& list);
  /// Rows and fields, beside those of all families.
  void (*write)(ForeignObject& config, const HfModel& model, Import& import);
};
extern const HfOwnKeys kHfFalconKeys;
extern const HfOwnKeys kHfGemma4Keys;
extern const HfOwnKeys kHfLlama4Keys;
extern const HfOwnKeys kHfMimoKeys;
extern const HfOwnKeys kHfStepKeys;
extern const HfOwnKeys kHfLingKeys;
extern const HfOwnKeys kHfBailingKeys;
extern const HfOwnKeys kHfHunyuanKeys;

/// Properties of a family that the file does not give.
struct HfFamily {
  const char* model_type = "";
  bool experts = false;
  bool tied = false;            ///< If the file does not give it.
  bool attention_bias = false;  ///< On query, key and value, always there; not on the output.
  bool output_bias = true;      ///< If the file has attention_bias, the output has it, too.
  bool query_key_norm = false;  ///< If the file does not give it.
  QueryKeyNorm norm_kind = QueryKeyNorm::per_head;
  bool gpt_oss = false;                      ///< Sinks, and biases everywhere.
  RouterScore score = RouterScore::softmax;  ///< Without scoring_func.
  bool normalised = true;                    ///< Without norm_topk_prob.
  bool choice_bias = false;                  ///< Experts are always chosen with a bias.
  GroupScore group_score = GroupScore::sum;
  double rope_theta = 10000.0;
  double rotary_part = 1.0;    ///< Share of a head that turns, if the file does not say it.
  bool rotary = true;          ///< Without position_embedding_type.
  bool output_gate = false;    ///< Without attn_output_gate.
  Mixer linear = Mixer::none;  ///< The mixer of layers that are called linear_attention.
  bool both_mixers = false;    ///< Each layer attends, and has `linear` beside that.
  bool one_norm = false;       ///< Mamba-2's norm is over all heads, whatever their groups.
  bool one_branch = false;     ///< A layer is a mixer or a feed-forward, by a pattern of letters.
  bool only_experts = false;   ///< No layer has a dense MLP, and the file no width of one.
  /// Its name for the width of the shared experts together.
  const char* shared_width = "shared_expert_intermediate_size";
  bool shared_gate = true;     ///< If the file has that width.
  bool shared_alone = false;   ///< Without experts, the shared one is each layer's MLP.
  double norm_epsilon = 1e-6;  ///< If the file does not say it.
  HfDefaults defaults = {};
  const HfOwnKeys* own = nullptr;
};

/// A file's model_type. Ling 2.0's files have the one of Ling, and tell by their architecture which
/// they are: bailing_moe_v2 here.
[[nodiscard]] std::string hf_family_name(ForeignObject& config);
/// Null: an unknown model_type.
[[nodiscard]] const HfFamily* find_hf_family(const std::string& model_type);
[[nodiscard]] std::vector<std::string> hf_family_names();

}  // namespace shardsim
