#pragma once

#include <algorithm>
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

// Data that ranks hand over to be saved, and request when they load. Checkpoints know nothing of
// strategies: a tensor is a name, a dtype and a global shape; a chunk is the part of it that a rank
// holds.
//
// Which elements of a global tensor a chunk holds, at any layout: runs of the flattened (row-major)
// tensor. ZeRO's flat shards are one run; the slice of a tensor-parallel rank is one strided run,
// since all but one dimension are whole; a box cut in several dimensions is one run per outer
// index. The elements of a chunk lie in the order in which its runs name them.
namespace shardsim {

/// `repeats` pieces of `count` consecutive elements each; piece i begins at first + i * stride.
struct ElementRun {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t stride = 0;  // Without meaning where repeats is 1.
  std::int64_t repeats = 1;

  [[nodiscard]] std::int64_t piece(std::int64_t index) const { return first + index * stride; }
  [[nodiscard]] std::int64_t end() const { return piece(repeats - 1) + count; }
  [[nodiscard]] std::int64_t numel() const { return count * repeats; }
  friend bool operator==(const ElementRun&, const ElementRun&) = default;
};
using ElementRuns = std::vector<ElementRun>;

/// Elements of a tensor, or nothing if a dimension is negative or their bytes would leave 63 bits.
[[nodiscard]] std::optional<std::int64_t> checked_numel(std::span<const std::int64_t> shape);

/// Elements named. REQUIRES: no problem (below).
[[nodiscard]] std::int64_t num_elements(std::span<const ElementRun> runs);

/// Why these runs cannot be a part of a tensor of `numel` elements, or nothing: a run is empty,
/// negative, overlaps itself or reaches past the end, or there are more elements than the tensor
/// has. Safe for any values.
[[nodiscard]] std::optional<std::string> problem_of(std::span<const ElementRun> runs,
                                                    std::int64_t numel);

/// Elements [first, first + count); none if count is 0.
[[nodiscard]] ElementRuns flat_run(std::int64_t first, std::int64_t count);

/// The box of `extent` elements from `offset` in each dimension, in row-major order, in as few runs
/// as it takes. Throws UsageError (E0811) when it does not lie inside the tensor.
[[nodiscard]] ElementRuns runs_of_box(std::span<const std::int64_t> shape,
                                      std::span<const std::int64_t> offset,
                                      std::span<const std::int64_t> extent);

/// Calls use(global element, count, position in a, position in b) for each stretch that both runs
/// hold, in rising order. Takes as many steps as there are such stretches, not as there are pieces.
template <class Use>
void for_each_overlap(const ElementRun& a, const ElementRun& b, const Use& use) {
  // The first piece after `at` that ends behind `element`.
  const auto skip = [](const ElementRun& run, std::int64_t at, std::int64_t element) {
    if (at + 1 >= run.repeats) return run.repeats;
    const std::int64_t behind = element - run.first - run.count;
    return behind < 0 ? at + 1 : std::max(at + 1, behind / run.stride + 1);
  };
  std::int64_t i = 0;
  std::int64_t j = 0;
  while (i < a.repeats && j < b.repeats) {
    const std::int64_t a_begin = a.piece(i);
    const std::int64_t b_begin = b.piece(j);
    const std::int64_t begin = std::max(a_begin, b_begin);
    const std::int64_t end = std::min(a_begin + a.count, b_begin + b.count);
    if (begin < end) {
      use(begin, end - begin, i * a.count + (begin - a_begin), j * b.count + (begin - b_begin));
    }
    if (a_begin + a.count <= b_begin + b.count) {
      i = skip(a, i, b_begin);
    } else {
      j = skip(b, j, a_begin);
    }
  }
}

/// Whether there may be such a stretch.
[[nodiscard]] inline bool may_overlap(const ElementRun& a, const ElementRun& b) {
  return a.first < b.end() && b.first < a.end();
}

/// Calls use(count, position in a, position in b) for each stretch that both chunks hold.
template <class Use>
void for_each_overlap(const ElementRuns& a, const ElementRuns& b, const Use& use) {
  std::int64_t to = 0;
  for (const ElementRun& wanted : a) {
    std::int64_t from = 0;
    for (const ElementRun& held : b) {
      if (may_overlap(wanted, held)) {
        for_each_overlap(wanted, held,
                         [&](std::int64_t, std::int64_t count, std::int64_t i, std::int64_t j) {
                           use(count, to + i, from + j);
                         });
      }
      from += held.numel();
    }
    to += wanted.numel();
  }
}

/// The first element that is not held exactly once.
struct PartitionFault {
  std::int64_t element = 0;
  int owner = -1;  // First of two owners of the element; -1: none.
  int other = -1;
};

/// A run, and a number that says whose it is.
struct OwnedRun {
  ElementRun run;
  int owner = 0;
};

/// Whether the runs hold each of `numel` elements exactly once. Takes memory for the runs only, and
/// time for at most `numel` pieces. REQUIRES: each run lies inside the tensor.
[[nodiscard]] std::optional<PartitionFault> find_partition_fault(std::vector<OwnedRun> runs,
                                                                 std::int64_t numel);

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
