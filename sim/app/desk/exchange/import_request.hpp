#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardsim {

/// The words of `shardsim import`.
struct ImportRequest {
  std::string kind;
  std::vector<std::string> files;
  std::string model;      ///< A config.json or a model preset, for kinds that do not say it.
  std::int64_t gpus = 0;  ///< 0: what the file says.
  std::string gpu;        ///< "h100": the preset dgx-h100.
  std::string system;     ///< A system preset.
  std::string output;     ///< Of the scenario; empty: standard output.
  bool approximate = false;
};

}  // namespace shardsim
