#pragma once

#include <string>

#include "scenarios/formats/import.hpp"
#include "scenarios/formats/import_request.hpp"

namespace shardsim {

/// The number of GPUs in the foreign file.
struct ForeignGpus {
  std::int64_t count = 0;  ///< 0: not given.
  std::string name;        ///< "world_size".
};

/// Writes the scenario's system and returns its GPUs. Options win over the file; values that
/// neither gives are assumed. Throws UsageError E1351: no such GPU, or the GPUs do not fill nodes.
std::int64_t import_system(const ImportRequest& request, const ForeignGpus& foreign,
                           Import& import);

}  // namespace shardsim
