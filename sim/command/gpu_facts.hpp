#pragma once

#include <string>

#include "scenarios/machine_spec.hpp"

namespace shardsim {

/// What programs ask of their GPU (torch.cuda.get_device_properties), as one line of JSON: its
/// name, bytes of memory, compute capability, multiprocessors, and how many a node has. The
/// machine's description knows all but two, which belong to the GPU that device.kernels names: null
/// where that is "none".
[[nodiscard]] std::string gpu_facts_json(const SystemSpec& system);

}  // namespace shardsim
