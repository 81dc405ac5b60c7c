#pragma once

#include <cstdint>

#include "sim/kernel/dtype.hpp"

// What a piece of arithmetic asks of a device, independent of the device.
namespace shardsim {

/// Which unit does the work: matrix products run on tensor cores, the rest moves bytes, within the
/// device's memory or between it and the host's.
enum class ComputeKind : std::uint8_t { matmul, memory_bound, host_transfer };

/// One kernel. `name` must outlive the run (a literal): it labels the slice in a trace.
struct ComputeOp {
  const char* name;
  ComputeKind kind;
  DType dtype;         ///< Of the operands; decides the peak rate.
  std::int64_t flops;  ///< Multiply and add count as two.
  std::int64_t bytes;  ///< Read and written in device memory; or moved over the host link.
};

}  // namespace shardsim
