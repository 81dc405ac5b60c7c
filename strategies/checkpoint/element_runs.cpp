#include "strategies/checkpoint/element_runs.hpp"

#include <cstddef>
#include <queue>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

std::string text_of(const ElementRun& run) {
  return "{first " + std::to_string(run.first) + ", count " + std::to_string(run.count) +
         ", stride " + std::to_string(run.stride) + ", repeats " + std::to_string(run.repeats) +
         "}";
}

bool lies_inside(const ElementRun& run, std::int64_t numel) {
  if (run.first < 0 || run.count < 1 || run.repeats < 1) return false;
  if (run.repeats > 1 && run.stride < run.count) return false;
  const std::int64_t stride = run.repeats > 1 ? run.stride : 0;
  std::int64_t end = 0;
  return !__builtin_mul_overflow(stride, run.repeats - 1, &end) &&
         !__builtin_add_overflow(end, run.first, &end) &&
         !__builtin_add_overflow(end, run.count, &end) && end <= numel;
}

// The next piece of one of the runs to be merged.
struct Piece {
  std::int64_t begin;
  std::size_t run;
  std::int64_t index;
};

// Earliest first; ties in the order of the runs, so that a fault is reported alike every time.
struct Later {
  bool operator()(const Piece& a, const Piece& b) const {
    return a.begin != b.begin ? a.begin > b.begin : a.run > b.run;
  }
};

}  // namespace

std::optional<std::int64_t> checked_numel(std::span<const std::int64_t> shape) {
  constexpr std::int64_t kMaxBytesPerElement = 8;
  std::int64_t bytes = kMaxBytesPerElement;
  bool empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    // An empty tensor still has dimensions that must not overflow what multiplies them later.
    if (dim == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, dim, &bytes)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : bytes / kMaxBytesPerElement;
}

std::int64_t num_elements(std::span<const ElementRun> runs) {
  std::int64_t sum = 0;
  for (const ElementRun& run : runs) sum += run.count * run.repeats;
  return sum;
}

std::optional<std::string> problem_of(std::span<const ElementRun> runs, std::int64_t numel) {
  std::int64_t named = 0;
  for (const ElementRun& run : runs) {
    if (!lies_inside(run, numel)) {
      return "run " + text_of(run) + " does not lie inside a tensor of " + std::to_string(numel) +
             " elements";
    }
    // Pieces do not overlap, so a run inside the tensor has no more elements than it.
    named += run.count * run.repeats;
    if (named > numel) {
      return "the runs name more than the tensor's " + std::to_string(numel) + " elements";
    }
  }
  return std::nullopt;
}

ElementRuns flat_run(std::int64_t first, std::int64_t count) {
  if (count == 0) return {};
  return {{.first = first, .count = count, .stride = 0, .repeats = 1}};
}

ElementRuns runs_of_box(std::span<const std::int64_t> shape, std::span<const std::int64_t> offset,
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

std::optional<PartitionFault> find_partition_fault(std::vector<OwnedRun> runs, std::int64_t numel) {
  std::priority_queue<Piece, std::vector<Piece>, Later> next;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    ElementRun& run = runs[r].run;
    if (run.stride == run.count) {  // Seamless: one piece, and not many steps.
      run = {.first = run.first, .count = run.count * run.repeats, .stride = 0, .repeats = 1};
    }
    next.push({run.first, r, 0});
  }
  std::int64_t covered = 0;
  int last_owner = -1;
  while (!next.empty()) {
    const Piece piece = next.top();
    next.pop();
    const auto& [run, owner] = runs[piece.run];
    if (piece.begin > covered) break;
    if (piece.begin < covered) {
      return PartitionFault{.element = piece.begin, .owner = last_owner, .other = owner};
    }
    covered = piece.begin + run.count;
    last_owner = owner;
    if (piece.index + 1 < run.repeats) {
      next.push({run.piece(piece.index + 1), piece.run, piece.index + 1});
    }
  }
  if (covered < numel) return PartitionFault{.element = covered};
  return std::nullopt;
}

}  // namespace shardsim
