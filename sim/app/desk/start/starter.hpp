#pragma once

#include <cstdint>
#include <string>

// The text of a first scenario of one's own.
namespace shardsim {

/// The name that "$schema" of a starter gives: relative to the scenario.
inline constexpr const char* kSchemaFile = "shardsim-scenario-1.schema.json";

struct StarterAsk {
  std::string model = "llama3-8b";  ///< A preset.
  std::string system = "dgx-h100";  ///< A preset.
  std::int64_t gpus = 0;            ///< 0: of one node.
};

/// The preset that `kind` means: "h100" is "dgx-h100". Throws UsageError (E1382) with those there
/// are.
[[nodiscard]] std::string system_preset(const std::string& kind);
/// Throws UsageError (E1382) if there is none of the name.
void require_model_preset(const std::string& name);

/// A scenario with comments that loads: fully sharded over all GPUs, one sequence each. Throws
/// UsageError (E1382) where the GPUs do not fill nodes.
[[nodiscard]] std::string starter_text(const StarterAsk& ask);

}  // namespace shardsim
