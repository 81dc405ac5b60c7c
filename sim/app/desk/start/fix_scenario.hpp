#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scenarios/scenario_error.hpp"

// Applies what the loader itself offers as safe (Problem::fix), round after round: one mistake
// often hides others. Comments, order and layout stay, for only the bytes named are replaced.
namespace shardsim {

/// One rewrite, at the place where it stood when it was found.
struct AppliedFix {
  int line = 0;
  int column = 0;
  std::string message;
};

struct FixedScenario {
  std::string text;
  std::vector<AppliedFix> applied;
  /// What is left for a person; empty if the text loads.
  std::optional<ScenarioError> problems;
};

/// `file` as in load_scenario_text. Nothing is written.
[[nodiscard]] FixedScenario fix_scenario(const std::string& text, const std::string& file);

/// `text` with `edits`. Of two that touch the same bytes only the first in the text is made.
[[nodiscard]] std::string apply_edits(const std::string& text, std::vector<TextEdit> edits);

}  // namespace shardsim
