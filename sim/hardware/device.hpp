#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "sim/kernel/rank_clock.hpp"
#include "sim/kernel/time.hpp"
#include "sim/kernel/tracked.hpp"

#include "sim/hardware/compute_op.hpp"
#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/workspaces.hpp"

// One accelerator. As a roofline: an operation takes as long as its arithmetic or its memory
// traffic, whichever is longer, plus the launch. With kernel data, its shape decides which share of
// the rates it reaches (docs/decisions/0032-kernel-cost.md).
namespace shardsim {

struct KernelUse;
struct Software;

struct Device {
  std::string name = "device";
  std::string architecture;  ///< A row of all_architectures(); empty: none is known.
  std::int64_t memory_bytes = 0;
  Tracked<double> memory_bytes_per_s = 0.0;
  /// Achieved share of the datasheet's bandwidth, (0, 1].
  Tracked<double> memory_efficiency = 1.0;
  /// Dense peak of matrix products per dtype; 0 = the device cannot do it.
  std::array<Tracked<double>, 9> peak_flops_per_s{};
  /// Achieved share of the peak by large matrix products, (0, 1].
  Tracked<double> matmul_efficiency = 1.0;
  /// Share of its clock under a limit of power (sim/hardware/power.hpp): rates of products and
  /// attention times this. Memory has a clock of its own.
  Tracked<double> clock_share = 1.0;
  /// Host link of one device, in each direction; 0 = none. Only offloading to the host needs it.
  Tracked<double> host_bytes_per_s = 0.0;
  /// Time on the compute stream that no arithmetic fills, per operation.
  Tracked<double> launch_s = 0.0;
  /// The measured constants of its kernels (find_kernel_constants), which outlive it; null: a
  /// roofline. With them, matmul_efficiency prices only products of unknown shape.
  const KernelConstants* kernels = nullptr;
  /// Keeps constants of which a scenario has replaced some (replaced_constants).
  std::shared_ptr<const KernelConstants> own_kernels;
  /// Its memory that libraries keep for themselves.
  Workspaces workspaces;
  /// The software on it (find_software), of static storage; null: every operation is one kernel.
  /// REQUIRES: kernels, where it stores the scores of attention.
  const Software* software = nullptr;
  /// The library of fused attention, where it is not the software's own.
  std::optional<AttentionLibrary> own_attention;
  /// Host time to issue a kernel, and to post a communication.
  Tracked<double> host_s_per_kernel = 0.0;
  Tracked<double> host_s_per_call = 0.0;
  /// Whether the host waits for every kernel before it issues the next, as with
  /// CUDA_LAUNCH_BLOCKING=1.
  bool host_waits_for_kernels = false;
  /// The share by which computing takes longer where a collective runs beside it.
  double slowdown_beside_collectives = 0.0;
  /// Whether attention has dropout. Nothing but the price of stored scores depends on it.
  bool attention_drops = false;

  [[nodiscard]] double peak(DType dtype) const {
    return peak_flops_per_s[static_cast<std::size_t>(dtype)];
  }

  /// max(flops / achieved rate, bytes / achieved bandwidth) + launch, rounded once. Source:
  /// Williams et al., "Roofline" (CACM 2009). Memory-bound operations have no arithmetic term; host
  /// transfers take bytes / host link. With kernel data, products and attention cost what
  /// kernels/kernel_seconds.hpp says. Throws UsageError when the device has no peak for the dtype
  /// of a matrix product, or no host link.
  [[nodiscard]] Time price(const ComputeOp& op) const { return price(op, 1.0); }
  /// The price times `slowdown`, as for a straggler; rounded once, too.
  [[nodiscard]] Time price(const ComputeOp& op, double slowdown) const;
  /// The library whose fused attention runs. REQUIRES: kernels != nullptr.
  [[nodiscard]] AttentionLibrary attention_library() const;
  /// The kernels that the software makes of an operation; a transfer to or from the host is one.
  [[nodiscard]] const KernelUse& use_of(const ComputeOp& op) const;
  /// Host time until the device can begin.
  [[nodiscard]] Time issue_price(const ComputeOp& op) const;
  /// How its host works with it.
  [[nodiscard]] StreamRules stream_rules() const;
};

}  // namespace shardsim
