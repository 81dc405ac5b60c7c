#include "sim/hardware/device.hpp"

#include <algorithm>

#include "sim/kernel/error.hpp"

#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/kernels/kernel_seconds.hpp"
#include "sim/hardware/software.hpp"

namespace shardsim {

namespace {

double memory_seconds(const Device& device, double bytes) {
  return bytes / (device.memory_bytes_per_s * device.memory_efficiency);
}

// Only the binding one of the two limits is read.
double roofline_seconds(const Device& device, const Tracked<double>& peak, const ComputeOp& op) {
  const double rate = device.memory_bytes_per_s.peek() * device.memory_efficiency.peek();
  const double seconds = op.bytes > 0 ? static_cast<double>(op.bytes) / rate : 0.0;
  const double arithmetic =
      static_cast<double>(op.flops) /
      (peak.peek() * device.matmul_efficiency.peek() * device.clock_share.peek());
  if (arithmetic > seconds) {
    return static_cast<double>(op.flops) / (peak * device.matmul_efficiency * device.clock_share);
  }
  return op.bytes > 0 ? memory_seconds(device, static_cast<double>(op.bytes)) : 0.0;
}

// Bytes of an operand's element.
double operand_bytes(DType dtype) { return static_cast<double>(element_bits(dtype)) / 8.0; }

// The share of its peak that a product reaches, over that of a product in 16 bits.
double share_of(const KernelConstants& kernels, const ComputeOp& op) {
  if (op.dtype == DType::fp4_e2m1) return kernels.fp4_share.value;
  if (op.dtype != DType::fp8_e4m3) return 1.0;
  return op.shape.has_block_scales ? kernels.fp8_block_share.value : kernels.fp8_share.value;
}

// The product and, if it does not add to the gradients by itself, the kernel that does.
double weight_gradient_seconds(const Device& device, double peak, const ComputeOp& op,
                               const KernelUse& use) {
  const double element = operand_bytes(op.dtype);
  const KernelShape& shape = op.shape;
  KernelShape product = shape;
  product.family = KernelFamily::matrix_product;
  if (use.kernels < 2.0) return matrix_product_seconds(device, peak, element, product, op.bytes);
  const std::int64_t operands = shape.batch * (shape.m * shape.k + shape.k * shape.n);
  const std::int64_t read = operands * element_bits(op.dtype) / 8;
  // Operands in fewer bits have results in 16.
  const std::int64_t of_result = std::max<std::int64_t>(size_of(op.dtype), 2);
  const std::int64_t written = of_result * shape.batch * shape.m * shape.n;
  return matrix_product_seconds(device, peak, element, product, read + written) +
         memory_seconds(device, static_cast<double>(written + op.bytes - read));
}

double attention_seconds(const Device& device, double peak, const ComputeOp& op,
                         const KernelUse& use) {
  const double copies = memory_seconds(device, (use.traffic - 1.0) * static_cast<double>(op.bytes));
  const Software* software = device.software;
  if (software == nullptr || !software->stores_scores()) {
    // The share tells of the software's own release.
    const bool is_own = software != nullptr && !device.own_attention;
    const double share = is_own ? software->attention_share.value : 1.0;
    const AttentionKernels& kernels = device.kernels->attention_of(device.attention_library());
    return fused_attention_seconds(device, kernels, peak * share, op.shape, op.flops, op.bytes) +
           copies;
  }
  ScorePasses passes = software->score_passes;
  if (device.attention_drops) {
    passes.forward += software->dropout_passes.forward;
    passes.backward += software->dropout_passes.backward;
  }
  return unfused_attention_seconds(device, peak, size_of(op.dtype), op.shape, passes) + copies;
}

// Small products of one chunk after another: the bytes between them bind.
double delta_rule_seconds(const Device& device, double peak, const ComputeOp& op) {
  const double bandwidth = device.memory_bytes_per_s * device.kernels->delta_rule_share.value;
  return std::max(static_cast<double>(op.flops) / peak, static_cast<double>(op.bytes) / bandwidth);
}

// Seconds of an operation on tensor cores.
double arithmetic_seconds(const Device& device, const Tracked<double>& peak, const ComputeOp& op,
                          const KernelUse& use) {
  if (device.kernels == nullptr) return roofline_seconds(device, peak, op);
  const double sustained = device.kernels->sustained_share.value;
  const auto rate = [&] {
    return peak * share_of(*device.kernels, op) * device.clock_share * sustained;
  };
  switch (op.shape.family) {
    case KernelFamily::matrix_product:
      return matrix_product_seconds(device, rate(), operand_bytes(op.dtype), op.shape, op.bytes);
    case KernelFamily::weight_gradient:
      return weight_gradient_seconds(device, rate(), op, use);
    case KernelFamily::attention_forward:
    case KernelFamily::attention_backward:
      return attention_seconds(device, peak * device.clock_share * sustained, op, use);
    case KernelFamily::delta_rule:
    case KernelFamily::delta_rule_backward:
      return delta_rule_seconds(device, rate(), op);
    default:  // Only flops and bytes are known.
      return roofline_seconds(device, peak, op);
  }
}

bool is_loss(KernelFamily family) {
  return family == KernelFamily::cross_entropy || family == KernelFamily::cross_entropy_backward;
}

// The share of the bandwidth. A loss may be two kernels like the measured one, whose share does not
// hold for many replacements.
double memory_share(const Device& device, KernelFamily family, const KernelUse& use) {
  if (device.kernels == nullptr) return device.memory_efficiency;
  if (family == KernelFamily::permutation) return device.kernels->permutation_share.value;
  if (family == KernelFamily::amax || family == KernelFamily::amax_of_norm) {
    return device.kernels->amax_share.value;
  }
  if (family == KernelFamily::quantize) return device.kernels->quantize_share.value;
  if (is_loss(family) && use.kernels <= 2.0) return device.kernels->cross_entropy_share.value;
  return device.memory_efficiency;
}

}  // namespace

AttentionLibrary Device::attention_library() const {
  return own_attention ? kernels->library_for(*own_attention)
                       : attention_library_of(software, *kernels);
}

const KernelUse& Device::use_of(const ComputeOp& op) const {
  if (software == nullptr || op.kind == ComputeKind::host_transfer) return kOneKernel;
  return software->use(op.shape.family);
}

Time Device::price(const ComputeOp& op, double slowdown) const {
  const KernelUse& use = use_of(op);
  double seconds = 0.0;
  if (op.kind == ComputeKind::matmul) {
    const Tracked<double>& rate = peak_flops_per_s[static_cast<std::size_t>(op.dtype)];
    // Checks for a rate without reading it; the product may need neither value.
    if (!(rate.peek() * matmul_efficiency.peek() > 0.0)) {
      throw UsageError("E0401", name + " has no peak rate for " + std::string(name_of(op.dtype)),
                       "give the device's peak for this precision, or choose another precision");
    }
    seconds = arithmetic_seconds(*this, rate, op, use);
  } else if (op.kind == ComputeKind::host_transfer) {
    if (!(host_bytes_per_s > 0.0)) {
      throw UsageError("E0402", name + " has no host link to offload over",
                       "give the device's host bandwidth, or keep everything on the device");
    }
    seconds = static_cast<double>(op.bytes) / host_bytes_per_s;
  } else if (op.bytes > 0) {
    seconds = static_cast<double>(op.bytes) * use.traffic /
              (memory_bytes_per_s * memory_share(*this, op.shape.family, use));
  }
  return Time::from_seconds((seconds + use.kernels * launch_s) * slowdown);
}

Time Device::issue_price(const ComputeOp& op) const {
  if (op.launch == HostLaunch::within_graph) return {};
  const double launches = op.launch == HostLaunch::graph ? 1.0 : use_of(op).kernels;
  // Not a read: it matters only if the device later waits for it.
  return Time::from_seconds(launches * host_s_per_kernel.peek());
}

StreamRules Device::stream_rules() const {
  return {.call_price = Time::from_seconds(host_s_per_call.peek()),
          .waits_for_kernels = host_waits_for_kernels,
          .waits_for_transfers = software != nullptr && software->host_waits_for_transfers,
          .slowdown = slowdown_beside_collectives};
}

}  // namespace shardsim
