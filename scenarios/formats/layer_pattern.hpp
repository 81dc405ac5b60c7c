#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/formats/import.hpp"

// Patterns of layers, as other programs write them and as model.layers holds them.
namespace shardsim {

/// Writes model.layers of one item per layer: neighbours that are alike become one, and a pattern
/// that comes again is written once, with model.layers_cycle. Nothing if all items are empty.
void write_layers(const ForeignValue& theirs, const std::vector<ImportItem>& layers,
                  Import& import);

/// Which of N layers a number N means: the first of each N, the last, or all but the last.
enum class LayerPhase : std::uint8_t { first_of_each, last_of_each, all_but_last_of_each };

/// Megatron-LM's frequencies: a number, or lists as Python adds and multiplies them,
/// "([0]*3+[1])*2". Returns which layers have what the frequency is of. Nothing for another text,
/// or lists of another length.
[[nodiscard]] std::optional<std::vector<bool>> read_frequency(const std::string& text,
                                                              std::int64_t num_layers,
                                                              LayerPhase phase);

/// The same as a text, in runs: "([0]*3+[1]*58)".
[[nodiscard]] std::string frequency_of(const std::vector<bool>& layers);

}  // namespace shardsim
