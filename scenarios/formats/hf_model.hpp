#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strategies/model/make_model.hpp"
#include "strategies/model/router_options.hpp"

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/hf_shape.hpp"
#include "scenarios/formats/import.hpp"

// A model from Hugging Face's config.json, with aliases and defaults of its family resolved, and
// its number of parameters in transformers.
namespace shardsim {

/// Sizes of a family's configuration class, for files that leave them out. 0: they must give them.
struct HfDefaults {
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;
  std::int64_t positions = 0;
};

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
extern const HfOwnKeys kHfLlama4Keys;
extern const HfOwnKeys kHfStepKeys;

/// Properties of a family that the file does not give.
struct HfFamily {
  const char* model_type;
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
  double norm_epsilon = 1e-6;  ///< If the file does not say it.
  HfDefaults defaults = {};
  const HfOwnKeys* own = nullptr;
};

/// Null: an unknown model_type.
[[nodiscard]] const HfFamily* find_hf_family(const std::string& model_type);
[[nodiscard]] std::vector<std::string> hf_family_names();

struct HfModel {
  std::string model_type;
  std::int64_t num_layers = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;
  std::int64_t positions = 0;
  bool tied = false;
  double norm_epsilon = 0.0;
  double rope_theta = 0.0;
  std::int64_t rotary_dim = 0;  ///< Elements of a head that turn.
  bool query_bias = false;      ///< On keys and values, too.
  bool output_bias = false;     ///< On the output of attention.
  bool mlp_bias = false;
  std::int64_t sinks = 0;  ///< Per layer.
  HfShape shape;
  // Experts; 0 if there are none.
  std::int64_t num_experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t expert_ffn = 0;
  std::int64_t shared_ffn = 0;
  bool shared_gate = false;
  bool expert_bias = false;  ///< On an expert's projections and on the router.
  RouterOptions router;  ///< Its bias_update_rate is 1 if there is a bias: no file has the rate.
  std::int64_t dense_layers = 0;
  std::vector<bool> sparse;       ///< Which layers have experts; empty: all behind the dense ones.
  bool dense_prediction = false;  ///< Blocks of multi-token prediction have a dense MLP.
  bool weight_on_input = false;   ///< An expert's weight is on its input.
  bool reads_aux_loss = true;     ///< Its code in transformers reads router_aux_loss_coef.
  const char* ffn_key = "intermediate_size";  ///< Name of the width of dense MLPs.
  // Multi-head latent attention; 0 if there is none.
  std::int64_t key_value_rank = 0;
  std::int64_t query_rank = 0;  ///< 0: queries are not compressed.
  std::int64_t nope_dim = 0;
  std::int64_t rope_dim = 0;
  std::int64_t value_dim = 0;

  // Queries of layers without rotary positions, see QueryTemperature.
  double query_scale = 0.0;
  std::int64_t query_floor = 0;

  [[nodiscard]] bool is_latent() const { return key_value_rank > 0; }
  /// The layers that have experts. Dense ones at the start are dense_layers, and no list.
  void set_sparse(const std::vector<bool>& layers);
  /// Trainable parameters, as transformers counts them, without those of multi-token prediction.
  [[nodiscard]] std::int64_t num_parameters() const;
  /// For each depth of multi-token prediction, beside num_parameters(): the projection of state and
  /// embedding, three norms, and a layer of the last one's kind (arXiv 2412.19437, section 2.2).
  [[nodiscard]] std::int64_t prediction_parameters() const;

 private:
  [[nodiscard]] std::int64_t layer_parameters(bool with_experts) const;
};

/// Throws ScenarioError E1354: keys are missing, all of them at once.
/// `tied`: whether embeddings are, if this object does not give it.
[[nodiscard]] HfModel read_hf_model(ForeignObject& config, const HfFamily& family, bool tied,
                                    const std::string& file);

/// Writes a field under the first of the foreign names that the file has.
void take_under(ForeignObject& config, const std::vector<std::string>& keys,
                const std::string& path, const FieldValue& value, Import& import);
/// Rows and fields of latent attention. REQUIRES: it is latent.
void write_hf_latent(ForeignObject& config, const HfModel& model, Import& import);
/// Adds what no scenario can express of it, in sentences without a full stop.
void add_hf_latent_limits(ForeignObject& config, const HfModel& model,
                          std::vector<std::string>& list);
/// Rows and fields of the experts and their router. REQUIRES: there are experts.
void write_hf_experts(ForeignObject& config, const HfModel& model, Import& import);
/// Adds what no scenario can express of them, in sentences without a full stop.
void add_hf_expert_limits(ForeignObject& config, const HfModel& model,
                          std::vector<std::string>& list);

}  // namespace shardsim
