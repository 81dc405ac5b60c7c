#pragma once

#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

#include "ivalues.hpp"

namespace shardsim_torch {

/// Computes an operator on the host, on the memory of the device's tensors. Results are tensors of
/// the device again. REQUIRES: those among the arguments have memory.
[[nodiscard]] std::vector<IValue> computed_on_host(const c10::OperatorHandle& op,
                                                   const std::vector<IValue>& given);

}  // namespace shardsim_torch
