#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/kernel/dtype.hpp"

#include "strategies/checkpoint/element_runs.hpp"

// Data that ranks hand over to be saved, and request when they load. Checkpoints know nothing of
// strategies: a tensor is a name, a dtype and a global shape; a chunk is the part of it that a rank
// holds.
namespace shardsim {

/// A global tensor. The name says what kind it is and of which parameter:
/// "parameter/blocks.3.attention.wq", "exp_avg/...", "master/...". Names are 1 to 512 printable
/// ASCII characters without space, '#', '"' and '\'; "__metadata__" is taken. At most 8 dimensions.
struct TensorInfo {
  std::string name;
  DType dtype = DType::fp32;
  std::vector<std::int64_t> shape;
  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

/// A part of a tensor on a rank. `bytes` holds the elements in the order of `elements`.
struct Chunk {
  TensorInfo tensor;
  ElementRuns elements;
  std::span<const std::byte> bytes;
  /// Each element of a tensor is written from exactly one chunk, its main copy. Other chunks that
  /// hold it (replicas) are handed over with false, or not at all.
  bool main = true;
};

/// A part of a tensor that a rank wants, at any layout.
struct ChunkRequest {
  TensorInfo tensor;
  ElementRuns elements;
  std::span<std::byte> bytes;
};

/// State that all ranks share: step counters, seeds, loss scale. There are no lists on purpose:
/// what has an entry per rank is no shared state and does not survive a change of layout.
using ScalarValue = std::variant<bool, std::int64_t, std::uint64_t, double, std::string>;
using Scalars = std::map<std::string, ScalarValue, std::less<>>;

/// Why this cannot be the name of a tensor, or nothing.
[[nodiscard]] std::optional<std::string> problem_of_name(std::string_view name);
/// Why there can be no such tensor, or nothing.
[[nodiscard]] std::optional<std::string> problem_of(const TensorInfo& tensor);
/// Why a chunk of `num_bytes` cannot be these elements of the tensor, or nothing.
[[nodiscard]] std::optional<std::string> problem_of(const TensorInfo& tensor,
                                                    std::span<const ElementRun> elements,
                                                    std::size_t num_bytes);
/// Why this cannot be a scalar, or nothing: names as above, text of at most 4096 printable ASCII
/// characters.
[[nodiscard]] std::optional<std::string> problem_of_scalar(std::string_view name,
                                                           const ScalarValue& value);
/// Whether the elements are the whole tensor in its own order.
[[nodiscard]] bool is_whole(const TensorInfo& tensor, std::span<const ElementRun> elements);

/// "fp32 [2, 3]".
[[nodiscard]] std::string describe(const TensorInfo& tensor);
/// The value with its type: "65536.0 (float64)".
[[nodiscard]] std::string describe(const ScalarValue& value);
/// Equal types and equal bits: NaN equals itself, 0 and -0 differ.
[[nodiscard]] bool same_scalar(const ScalarValue& a, const ScalarValue& b);

}  // namespace shardsim
