#pragma once

#include <string>

#include "scenarios/model_spec.hpp"

// Models in words, for reports and for the page of presets.
namespace shardsim {

/// Says what MFU counts of this model: "3 x forward's matrix products, causal pairs, chosen
/// experts". docs/guide/models.md says each part in full.
[[nodiscard]] std::string mfu_convention(const ModelSpec& model);

/// Mixers of all layers, with how many layers have each where not all do: "64 heads of 128, 8 of
/// keys and values; windows of 1,024 in 40 of 48 layers". REQUIRES: a loaded scenario's model.
[[nodiscard]] std::string mixers_in_words(const ModelSpec& model);

/// Norms of blocks, and what else all have: "RMS norms around branches; tied head". REQUIRES: the
/// same.
[[nodiscard]] std::string blocks_in_words(const ModelSpec& model);

/// Feed-forwards of all layers: "128 swiglu experts of 1,536, 8 for a token". REQUIRES: the same.
[[nodiscard]] std::string feed_forwards_in_words(const ModelSpec& model);

}  // namespace shardsim
