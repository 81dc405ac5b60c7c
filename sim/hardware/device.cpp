#include "sim/hardware/device.hpp"

#include "sim/kernel/error.hpp"

namespace shardsim {

Time Device::price(const ComputeOp& op) const {
  double seconds = 0.0;
  if (op.bytes > 0) {
    seconds = static_cast<double>(op.bytes) / (memory_bytes_per_s * memory_efficiency);
  }
  if (op.kind == ComputeKind::matmul) {
    const double rate = peak(op.dtype) * matmul_efficiency;
    if (!(rate > 0.0)) {
      throw UsageError("E0401", name + " has no peak rate for " + std::string(name_of(op.dtype)),
                       "give the device's peak for this precision, or choose another precision");
    }
    const double arithmetic = static_cast<double>(op.flops) / rate;
    if (arithmetic > seconds) seconds = arithmetic;
  }
  if (op.kind == ComputeKind::host_transfer) {
    if (!(host_bytes_per_s > 0.0)) {
      throw UsageError("E0402", name + " has no host link to offload over",
                       "give the device's host bandwidth, or keep everything on the device");
    }
    seconds = static_cast<double>(op.bytes) / host_bytes_per_s;
  }
  return Time::from_seconds(seconds + launch_s);
}

}  // namespace shardsim
