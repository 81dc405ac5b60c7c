#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scenarios/scenario_error.hpp"

// Applies the fixes that the loader marks as safe (Problem::fix), in rounds, because one mistake
// often hides others. Comments, order and layout stay, because only the named bytes are replaced.
namespace shardsim {

/// One rewrite, with its place when it was found.
struct AppliedFix {
  int line = 0;
  int column = 0;
  std::string message;
};

struct FixedScenario {
  std::string text;
  std::vector<AppliedFix> applied;
  /// The mistakes left for the user; empty if the text loads.
  std::optional<ScenarioError> problems;
};

/// `file` as in load_scenario_text. Nothing is written.
[[nodiscard]] FixedScenario fix_scenario(const std::string& text, const std::string& file);

/// `text` with `edits`. If two touch the same bytes, only the first in the text is made.
[[nodiscard]] std::string apply_edits(const std::string& text, std::vector<TextEdit> edits);

}  // namespace shardsim
