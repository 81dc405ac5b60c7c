#pragma once

#include <cstdint>
#include <string>

// The text of a user's first scenario.
namespace shardsim {

/// The name that "$schema" of a starter gives: relative to the scenario.
inline constexpr const char* kSchemaFile = "shardsim-scenario-1.schema.json";

struct StarterAsk {
  std::string model = "llama3-8b";  ///< A preset.
  std::string system = "dgx-h100";  ///< A preset.
  std::int64_t gpus = 0;            ///< 0: those of one node.
  std::string beside = {};          ///< The folder in which the user's own presets are; "": this.
};

/// The preset for `kind`, among those of a scenario in `beside`: "h100" is "dgx-h100". Throws
/// UsageError (E0902) with the near ones.
[[nodiscard]] std::string system_preset(const std::string& kind, const std::string& beside);
/// Throws UsageError (E0902) if there is no such name.
void require_model_preset(const std::string& name, const std::string& beside);

/// A scenario with comments that loads: fully sharded over all GPUs, one sequence each. Throws
/// UsageError (E0966) if the GPUs do not fill nodes.
[[nodiscard]] std::string starter_text(const StarterAsk& ask);

}  // namespace shardsim
