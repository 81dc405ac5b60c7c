#pragma once

#include <memory>

#include "sim/hardware/kernels/kernel_constants.hpp"

#include "scenarios/machine_spec.hpp"

namespace shardsim {

/// How the source of a replaced constant begins; the rest is the scenario's own words.
inline constexpr const char* kReplacedSource = "system.device.kernel_constants: ";

/// The constants of a device's kernels: those of the GPU that it names, but for those that it
/// replaces. Null if it names none.
[[nodiscard]] std::shared_ptr<const KernelConstants> kernels_of(const DeviceSpec& device);

}  // namespace shardsim
