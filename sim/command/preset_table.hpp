#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The models and machines that can be named in the current folder, a row each.
namespace shardsim {

/// Which presets are listed.
enum class PresetKinds : std::uint8_t { all, models, systems };

struct PresetListing {
  std::string text;
  /// Files of the user that are no presets, each with the place, the cause and the way out.
  std::vector<std::string> left_out;
};

/// Tables for people: sizes of models, peaks and memory of machines, and where they come from. For
/// the user's own preset that is its file. Throws ScenarioError if a built-in preset cannot be
/// read.
[[nodiscard]] PresetListing preset_table(PresetKinds kinds);

/// {"models": [...], "systems": [...]}, without the list that is not asked for; units are in the
/// keys. "own_file" is the file of the user's own preset. Ends in a newline. Throws ScenarioError.
[[nodiscard]] PresetListing preset_json(PresetKinds kinds);

}  // namespace shardsim
