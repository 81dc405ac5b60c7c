#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "strategies/model/make_model.hpp"
#include "strategies/model/router_options.hpp"

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/hf_family.hpp"
#include "scenarios/formats/hf_layers.hpp"
#include "scenarios/formats/hf_required.hpp"
#include "scenarios/formats/hf_shape.hpp"
#include "scenarios/formats/import.hpp"

// A model from Hugging Face's config.json, with aliases and defaults of its family resolved, and
// its number of parameters in transformers.
namespace shardsim {

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
  bool output_gate = false;  ///< Attention has one,
  bool head_gate = false;    ///< or one for each head.
  bool value_norm = false;
  double value_scale = 1.0;
  HfShape shape;
  std::vector<HfLayer> layers;
  /// The blocks of a depth of multi-token prediction; empty: one as the last layer is.
  std::vector<HfLayer> prediction;
  // The mixers that layers have.
  DeltaNetOptions delta_net;
  MambaOptions mamba;
  // Experts; 0 if there are none.
  std::int64_t num_experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t expert_ffn = 0;
  std::int64_t latent = 0;  ///< Width of what experts read; 0: hidden.
  std::int64_t shared_ffn = 0;
  bool shared_gate = false;
  std::string shared_width;      ///< The key of the shared width; empty: the file counts experts.
  bool expert_bias = false;      ///< On an expert's projections and on the router.
  bool weight_on_input = false;  ///< An expert's weight is on its input.
  bool reads_aux_loss = true;    ///< Its code in transformers reads router_aux_loss_coef.
  const char* ffn_key = "intermediate_size";  ///< Name of the width of dense MLPs.
  RouterOptions router;  ///< Its bias_update_rate is 1 if there is a bias: no file has the rate.
  // Multi-head latent attention; 0 if there is none.
  std::int64_t key_value_rank = 0;
  std::int64_t query_rank = 0;  ///< 0: queries are not compressed.
  std::int64_t nope_dim = 0;
  std::int64_t rope_dim = 0;
  std::int64_t value_dim = 0;  ///< Without latents: 0, or elements of a value.
  // Queries of layers without rotary positions, see QueryTemperature.
  double query_scale = 0.0;
  std::int64_t query_floor = 0;

  [[nodiscard]] bool is_latent() const { return key_value_rank > 0; }
  [[nodiscard]] bool mixes_by(Mixer mixer) const {
    return std::any_of(layers.begin(), layers.end(),
                       [mixer](const HfLayer& layer) { return has_mixer(layer.mixer, mixer); });
  }
  /// Whether rotary positions turn queries and keys of some layer.
  [[nodiscard]] bool turns() const {
    return std::any_of(layers.begin(), layers.end(), [](const HfLayer& layer) {
      return has_mixer(layer.mixer, Mixer::attention) && layer.rotary;
    });
  }
  /// Whether some layer has such a feed-forward.
  [[nodiscard]] bool feeds_by(FeedForward kind) const {
    return std::any_of(layers.begin(), layers.end(),
                       [kind](const HfLayer& layer) { return layer.feed_forward == kind; });
  }
  /// All of its heads' sizes. REQUIRES: it is not latent.
  [[nodiscard]] HeadOptions own_heads() const {
    return {.num_attention_heads = heads,
            .num_query_groups = key_value_heads,
            .head_dim = head_dim,
            .value_head_dim = value_dim > 0 ? value_dim : head_dim,
            .rotary_dim = rotary_dim};
  }
  /// Gives a layer its heads, of which `all` has all sizes. A rotary_dim of 0 turns nothing.
  void give_heads(const HeadOptions& all, HfLayer& layer) const;
  /// Trainable parameters, as transformers counts them, without those of multi-token prediction.
  [[nodiscard]] std::int64_t num_parameters() const;
  /// The blocks of one depth of multi-token prediction, never none.
  [[nodiscard]] std::vector<HfLayer> prediction_blocks() const;
  /// For each depth of multi-token prediction, beside num_parameters(): the projection of state and
  /// embedding, three norms, and its blocks (arXiv 2412.19437, section 2.2).
  [[nodiscard]] std::int64_t prediction_parameters() const;

 private:
  /// A layer's heads as what differs from the model's.
  [[nodiscard]] HeadOptions heads_of_layer(const HeadOptions& all) const;
  [[nodiscard]] std::int64_t attention_parameters(const HfLayer& layer) const;
  [[nodiscard]] std::int64_t mixer_parameters(const HfLayer& layer) const;
  [[nodiscard]] std::int64_t feed_forward_parameters(const HfLayer& layer) const;
  [[nodiscard]] std::int64_t layer_parameters(const HfLayer& layer) const;
};

/// Throws ScenarioError E1354: keys are missing, all of them at once.
/// `tied`: whether embeddings are, if this object does not give it.
[[nodiscard]] HfModel read_hf_model(ForeignObject& config, const HfFamily& family, bool tied,
                                    const std::string& file);

/// Writes a field under the first of the foreign names that the file has.
void take_under(ForeignObject& config, const std::vector<std::string>& keys,
                const std::string& path, const FieldValue& value, Import& import);
/// Rows and fields of multi-token prediction; a row says the size of what is left out.
void write_hf_prediction(ForeignObject& config, const HfModel& model, Import& import);
/// Rows and fields of latent attention. REQUIRES: it is latent.
void write_hf_latent(ForeignObject& config, const HfModel& model, Import& import);
/// Adds what no scenario can express of it, in sentences without a full stop.
void add_hf_latent_limits(ForeignObject& config, const HfModel& model,
                          std::vector<std::string>& list);
/// Sizes of gated DeltaNet or Mamba-2, of which the family has `linear`.
void read_hf_linear(ForeignObject& config, const HfFamily& family, HfRequired& required,
                    HfModel& model);
/// The parameters of one such mixer, without the norm in front of it.
[[nodiscard]] std::int64_t hf_linear_parameters(const HfModel& model, Mixer mixer);
/// Rows and fields of them.
void write_hf_linear(ForeignObject& config, const HfModel& model, Import& import);
/// Adds what no scenario can express of them, in sentences without a full stop.
void add_hf_linear_limits(ForeignObject& config, const HfFamily& family, const HfModel& model,
                          std::vector<std::string>& list);
/// Rows and fields of the experts and their router. REQUIRES: there are experts.
void write_hf_experts(ForeignObject& config, const HfModel& model, Import& import);
/// Adds what no scenario can express of them, in sentences without a full stop.
void add_hf_expert_limits(ForeignObject& config, const HfModel& model,
                          std::vector<std::string>& list);

}  // namespace shardsim
