#pragma once

#include <string>

#include "scenarios/machine_spec.hpp"

namespace shardsim {

/// The answers to programs that ask for their GPU (torch.cuda.get_device_properties), as one line
/// of JSON: name, bytes of memory, compute capability, multiprocessors, and GPUs of a node. Compute
/// capability and multiprocessors belong to the GPU that device.kernels names; they are null where
/// that is "none".
[[nodiscard]] std::string gpu_facts_json(const SystemSpec& system);

}  // namespace shardsim
