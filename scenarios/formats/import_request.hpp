#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardsim {

/// The words of `shardsim import`.
struct ImportRequest {
  std::string kind;
  std::vector<std::string> files;
  std::string model;      ///< A config.json or a model preset, for kinds without a model.
  std::int64_t gpus = 0;  ///< 0: as the file gives it.
  std::string gpu;        ///< "h100": the preset dgx-h100.
  std::string system;     ///< A system preset.
  std::string output;     ///< The scenario's file; empty: standard output.
  bool approximate = false;
};

}  // namespace shardsim
