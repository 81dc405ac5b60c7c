#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/import.hpp"

// The layers of a Hugging Face model one by one: every rule of config.json is expanded into a list.
namespace shardsim {

struct HfLayer {
  std::string attention = "full";  ///< As model.layers has it.
  bool rotary = true;
  bool sinks = false;
  double rope_theta = 0.0;   ///< 0: the model's.
  std::string feed_forward;  ///< As model.layers has it; empty: not said there.

  friend bool operator==(const HfLayer&, const HfLayer&) = default;
};

/// Adds a sentence without a full stop for each kind in `layer_types` that model.layers cannot say.
void add_unknown_hf_layers(ForeignObject& config, std::vector<std::string>& list);

/// The kind of every layer, by `layer_types`, or `sliding_window` with what switches it on, and
/// `no_rope_layers` or `no_rope_layer_interval`. Throws ScenarioError E1346: lists of another
/// length than the layers.
[[nodiscard]] std::vector<HfLayer> read_hf_layers(ForeignObject& config,
                                                  const std::string& model_type,
                                                  std::int64_t num_layers, bool sinks);

/// Writes model.layers, unless all are as layers are without it. A pattern that comes again is
/// written once, with model.layers_cycle.
void write_hf_layers(ForeignObject& config, const std::vector<HfLayer>& layers,
                     const std::string& model_type, Import& import);

}  // namespace shardsim
