#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

}  // namespace shardsim
