#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strategies/model/make_model.hpp"

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/import.hpp"

// The shape of a Hugging Face model's blocks: activation, norms, the order of branches, factors. A
// family's file says some of it; the rest stands in its code in transformers.
namespace shardsim {

struct HfShape {
  Activation activation = Activation::swiglu;
  double swiglu_limit = 0.0;
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  NormKind norm = NormKind::rms;
  NormPlacement placement = NormPlacement::pre;
  bool zero_centred = false;
  bool parallel = false;
  double embedding_scale = 1.0;
  double residual_scale = 1.0;
  double logit_scale = 1.0;
  double attention_scale = 0.0;  ///< 0: that of the head's size.
  double attention_cap = 0.0;    ///< 0: none.
  double final_cap = 0.0;

  /// Gate, up and down, or up and down alone.
  [[nodiscard]] std::int64_t matrices() const {
    return ActivationForm{.kind = activation}.is_gated() ? 3 : 2;
  }
  /// Parameters of the stream's norms of one branch.
  [[nodiscard]] std::int64_t norms(std::int64_t hidden) const;
};

/// `hidden`: hidden_size.
[[nodiscard]] HfShape read_hf_shape(ForeignObject& config, const std::string& model_type,
                                    std::int64_t hidden);
void write_hf_shape(ForeignObject& config, const std::string& model_type, const HfShape& shape,
                    Import& import);
/// Adds what no scenario can express of it, in sentences without a full stop.
void add_hf_shape_limits(ForeignObject& config, const std::string& model_type,
                         std::vector<std::string>& list);

/// Which layers of a family see everything, where its file has no list of layers.
struct HfPattern {
  std::int64_t period = 0;           ///< The last layer of so many; 0: no such rule.
  bool full_turn = true;             ///< These layers have rotary positions.
  double sliding_rope_theta = 0.0;   ///< Base of the other layers; 0: the model's.
  std::int64_t window = 0;           ///< If the file does not say it.
  std::int64_t unturned_period = 0;  ///< Each last layer of so many has no rotary positions.
  /// Positions of a chunk, if the file does not say it. Without a list of kinds, layers with rotary
  /// positions attend in chunks. 0: none does.
  std::int64_t chunk = 0;
};
[[nodiscard]] HfPattern read_hf_pattern(ForeignObject& config, const std::string& model_type);

}  // namespace shardsim
