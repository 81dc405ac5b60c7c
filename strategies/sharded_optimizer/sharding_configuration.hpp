#pragma once

#include <cstdint>

// How a sharded model is kept in step, apart from which axes it is cut along.
namespace shardsim {

struct ShardingConfiguration {
  /// For the plain SGD with which a ShardedModel trains if no optimizer wraps it. A wrapped
  /// optimizer has a rate of its own.
  double learning_rate = 0.01;
  /// Gradients are reduced while backward runs and are the global ones when it ends. Else they stay
  /// local, and whole, until synchronize_gradients is called.
  bool auto_sync_gradients = true;
  /// Elements below which a group of parameters that is reduced and gathered together is not
  /// closed: small parameters share a bucket (DDP, ZeRO-1, -2) or a unit (ZeRO-3, FSDP) until it
  /// has as many. A tied weight, and what lies in different model chunks, stays apart all the same.
  std::int64_t minimum_parameter_group_size = 1024;
  /// Ranks send 8 bits of each gradient, and what is lost later (int8 of GradientCompression). ZeRO
  /// stage 0, data parallelism alone; saving is refused then.
  bool enable_gradient_compression = false;
  /// Optimizer state and master weights, the owned part of reduced gradients, and the owned part of
  /// the weights live in host memory, and cross the host link (Device::host_bytes_per_s) a chunk at
  /// a time when they are worked on. Gradients: ZeRO stages 2 and 3. Parameters: stage 3.
  bool cpu_offload_optimizer = false;
  bool cpu_offload_gradients = false;
  bool cpu_offload_parameters = false;

  friend bool operator==(const ShardingConfiguration&, const ShardingConfiguration&) = default;
};

// The presets of the specification.
[[nodiscard]] ShardingConfiguration high_bandwidth_configuration();  ///< Small groups, 512.
[[nodiscard]] ShardingConfiguration low_bandwidth_configuration();   ///< 4096, compressed.
[[nodiscard]] ShardingConfiguration zero_offload_configuration();    ///< Optimizer and gradients.
[[nodiscard]] ShardingConfiguration zero_offload_full_configuration();  ///< Parameters, too.

/// Throws UsageError on what is out of range, and on what `zero_stage` cannot do.
void validate(const ShardingConfiguration& configuration, int zero_stage);

}  // namespace shardsim
