#pragma once

#include <string>

#include "sim/app/desk/exchange/import.hpp"
#include "sim/app/desk/exchange/import_request.hpp"

namespace shardsim {

/// What the foreign file says about the number of GPUs.
struct ForeignGpus {
  std::int64_t count = 0;  ///< 0: nothing.
  std::string name;        ///< "world_size".
};

/// Writes the scenario's system and returns its GPUs. Options win over the file; what neither says
/// is assumed. Throws UsageError E1351: no such GPU, or so many do not fill nodes.
std::int64_t import_system(const ImportRequest& request, const ForeignGpus& foreign,
                           Import& import);

}  // namespace shardsim
