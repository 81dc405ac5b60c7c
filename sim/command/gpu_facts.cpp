#include "sim/command/gpu_facts.hpp"

#include <cmath>
#include <cstdint>
#include <memory>

#include <nlohmann/json.hpp>

#include "sim/hardware/kernels/kernel_constants.hpp"

#include "scenarios/kernels_of.hpp"

namespace shardsim {

std::string gpu_facts_json(const SystemSpec& system) {
  const DeviceSpec& device = system.device;
  nlohmann::ordered_json facts = {{"name", device.name},
                                  {"memory_bytes", device.memory_bytes},
                                  {"compute_capability", nullptr},
                                  {"multiprocessors", nullptr},
                                  {"gpus_per_node", system.gpus_per_node}};
  if (const std::shared_ptr<const KernelConstants> kernels = kernels_of(device)) {
    constexpr double kMinors = 10.0;
    const auto capability = std::llround(kMinors * compute_capability_of(kernels->name).value);
    facts["compute_capability"] = {capability / 10, capability % 10};
    facts["multiprocessors"] = static_cast<std::int64_t>(kernels->multiprocessors.value);
  }
  return facts.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace shardsim
