#pragma once

#include "backends/runtime.hpp"

#include "strategies/model/parameter.hpp"

namespace shardsim {

/// What a module computes with on a rank: the same model code runs whole on one device, or in
/// parts.
struct ModelContext {
  Runtime& runtime;
  Parameters& parameters;
};

}  // namespace shardsim
