#include "sim/hardware/device.hpp"

#include "sim/kernel/error.hpp"

#include "sim/hardware/kernels/attention.hpp"
#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/kernels/matrix_product.hpp"

namespace shardsim {

namespace {

double roofline_seconds(const Device& device, double peak, const ComputeOp& op) {
  double seconds = 0.0;
  if (op.bytes > 0) {
    seconds =
        static_cast<double>(op.bytes) / (device.memory_bytes_per_s * device.memory_efficiency);
  }
  const double arithmetic = static_cast<double>(op.flops) / (peak * device.matmul_efficiency);
  return arithmetic > seconds ? arithmetic : seconds;
}

// Of an operation on tensor cores.
double arithmetic_seconds(const Device& device, double peak, const ComputeOp& op) {
  if (device.kernels == nullptr) return roofline_seconds(device, peak, op);
  switch (op.shape.family) {
    case KernelFamily::matrix_product:
      return matrix_product_seconds(device, peak, size_of(op.dtype), op.shape, op.bytes);
    case KernelFamily::attention_forward:
    case KernelFamily::attention_backward:
      return fused_attention_seconds(device, peak, op.shape, op.flops, op.bytes);
    case KernelFamily::other:
    case KernelFamily::permutation:
    case KernelFamily::cross_entropy:
      break;
  }
  return roofline_seconds(device, peak, op);
}

// Of the bandwidth.
double memory_share(const Device& device, KernelFamily family) {
  if (device.kernels == nullptr) return device.memory_efficiency;
  if (family == KernelFamily::permutation) return device.kernels->permutation_share.value;
  if (family == KernelFamily::cross_entropy) return device.kernels->cross_entropy_share.value;
  return device.memory_efficiency;
}

}  // namespace

Time Device::price(const ComputeOp& op) const {
  double seconds = 0.0;
  if (op.kind == ComputeKind::matmul) {
    const double rate = peak(op.dtype);
    if (!(rate * matmul_efficiency > 0.0)) {
      throw UsageError("E0401", name + " has no peak rate for " + std::string(name_of(op.dtype)),
                       "give the device's peak for this precision, or choose another precision");
    }
    seconds = arithmetic_seconds(*this, rate, op);
  } else if (op.kind == ComputeKind::host_transfer) {
    if (!(host_bytes_per_s > 0.0)) {
      throw UsageError("E0402", name + " has no host link to offload over",
                       "give the device's host bandwidth, or keep everything on the device");
    }
    seconds = static_cast<double>(op.bytes) / host_bytes_per_s;
  } else if (op.bytes > 0) {
    seconds =
        static_cast<double>(op.bytes) / (memory_bytes_per_s * memory_share(*this, op.shape.family));
  }
  return Time::from_seconds(seconds + launch_s);
}

}  // namespace shardsim
