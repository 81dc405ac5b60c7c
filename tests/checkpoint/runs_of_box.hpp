#pragma once

#include <cstdint>
#include <span>

#include "sim/kernel/error.hpp"

#include "strategies/checkpoint/chunk.hpp"

namespace shardsim::test {

/// The box of `extent` elements from `offset` in each dimension, in row-major order, in as few runs
/// as it takes. Throws UsageError (E0811) when it does not lie inside the tensor.
[[nodiscard]] inline ElementRuns runs_of_box(std::span<const std::int64_t> shape,
                                             std::span<const std::int64_t> offset,
                                             std::span<const std::int64_t> extent) {
  bool inside = checked_numel(shape).has_value() && offset.size() == shape.size() &&
                extent.size() == shape.size();
  bool empty = false;
  for (std::size_t d = 0; inside && d < shape.size(); ++d) {
    inside = offset[d] >= 0 && extent[d] >= 0 && offset[d] <= shape[d] &&
             extent[d] <= shape[d] - offset[d];
    empty = empty || extent[d] == 0;
  }
  if (!inside) {
    throw UsageError("E0811", "a box does not lie inside its tensor",
                     "give an offset and an extent for each dimension, within the shape");
  }
  if (empty) return {};
  // From the innermost dimension outwards: what is contiguous so far, and its span in the tensor.
  ElementRuns runs = flat_run(0, 1);
  std::int64_t span = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    for (ElementRun& run : runs) run.first += offset[d] * span;
    if (runs.size() == 1 && runs[0].repeats == 1 && runs[0].count == span) {
      runs[0].count = extent[d] * span;
    } else if (runs.size() == 1 && runs[0].repeats == 1) {
      runs[0].stride = span;
      runs[0].repeats = extent[d];
    } else if (runs.size() == 1 && runs[0].stride * runs[0].repeats == span) {
      runs[0].repeats *= extent[d];  // The dimension inside is whole: pieces continue as before.
    } else if (extent[d] > 1) {
      const ElementRuns inner = runs;
      for (std::int64_t i = 1; i < extent[d]; ++i) {
        for (ElementRun run : inner) {
          run.first += i * span;
          runs.push_back(run);
        }
      }
    }
    span *= shape[d];
  }
  for (ElementRun& run : runs) {
    if (run.repeats == 1) run.stride = 0;
  }
  return runs;
}

}  // namespace shardsim::test
