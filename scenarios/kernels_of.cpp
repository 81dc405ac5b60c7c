#include "scenarios/kernels_of.hpp"

#include <vector>

#include "sim/hardware/kernels/replaced_constants.hpp"

namespace shardsim {

std::shared_ptr<const KernelConstants> kernels_of(const DeviceSpec& device) {
  const KernelConstants* const named = find_kernel_constants(device.kernels);
  if (named == nullptr) return nullptr;
  // Nobody owns a table of static storage.
  if (device.kernel_constants.empty()) return {std::shared_ptr<const KernelConstants>(), named};
  std::vector<ReplacedConstant> replaced;
  for (const KernelConstantSpec& each : device.kernel_constants) {
    replaced.push_back({each.name, each.value, kReplacedSource + each.source});
  }
  return replaced_constants(*named, replaced);
}

}  // namespace shardsim
