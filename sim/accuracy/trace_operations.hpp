#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/accuracy/kernel_measurement.hpp"

// The tables that lead from names in a trace to operations: of kernels, what they do; of PyTorch's
// operators, where their shapes stand among their inputs.
namespace shardsim {

enum class KernelRole : std::uint8_t {
  product,
  attention,
  bytes,  ///< It moves its bytes, and no constant of its own prices it.
  communication,
  unknown,
};

/// By the first of the table's words that is in the name.
[[nodiscard]] KernelRole role_of_kernel(std::string_view name);
/// "bound by its bytes: no constant of its own".
[[nodiscard]] const char* words_of(KernelRole role);
/// Whether constants of kernels price it.
[[nodiscard]] bool is_priced(KernelRole role);

/// The inputs of an operator, in its order.
struct TraceInputs {
  bool are_recorded = false;
  std::vector<std::vector<std::int64_t>> dims;  ///< Empty of what is no tensor; 0: no size.
  std::vector<std::string> types;
  std::vector<std::string> values;  ///< Values of inputs that are no tensors.
};

struct TracedMatch {
  KernelOperation operation{};
  KernelPrecision precision;
  ComputeOp work{};
  std::optional<AttentionLibrary> library = std::nullopt;  ///< That of an attention.
  std::string why;                                         ///< Why it is none; empty: it is one.
};

/// Whether kernels of this role may be the operator's own work.
[[nodiscard]] bool is_traced_operation(std::string_view name, KernelRole role);
/// REQUIRES: is_traced_operation().
[[nodiscard]] TracedMatch match_of(std::string_view name, const TraceInputs& inputs);

}  // namespace shardsim
