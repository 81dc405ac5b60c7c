#include "strategies/checkpoint/chunk.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <queue>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kMaxNameLength = 512;
constexpr std::size_t kMaxTextLength = 4096;
constexpr std::size_t kMaxDimensions = 8;

std::string shortest(double value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), error == std::errc{} ? end : text.data()};
}

struct Describer {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value) + " (int64)"; }
  std::string operator()(std::uint64_t value) const { return std::to_string(value) + " (uint64)"; }
  std::string operator()(double value) const { return shortest(value) + " (float64)"; }
  std::string operator()(const std::string& value) const { return "\"" + value + "\""; }
};

std::string text_of(const ElementRun& run) {
  return concat("{first ", run.first, ", count ", run.count, ", stride ", run.stride, ", repeats ",
                run.repeats, "}");
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
  for (const ElementRun& run : runs) sum += run.numel();
  return sum;
}

std::optional<std::string> problem_of(std::span<const ElementRun> runs, std::int64_t numel) {
  std::int64_t named = 0;
  for (const ElementRun& run : runs) {
    if (!lies_inside(run, numel)) {
      return concat("run ", text_of(run), " does not lie inside a tensor of ", numel, " elements");
    }
    // Pieces do not overlap, so a run inside the tensor has no more elements than it.
    named += run.numel();
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
      run = {.first = run.first, .count = run.numel(), .stride = 0, .repeats = 1};
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

std::optional<std::string> problem_of_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameLength) {
    return concat("a name has 1 to ", kMaxNameLength, " characters, this one ", name.size());
  }
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return c > ' ' && c < '\x7f' && c != '#' && c != '"' && c != '\\';
  });
  if (!plain) return std::string("a name is printable ASCII without space, '#', '\"' and '\\'");
  if (name == "__metadata__")
    return std::string("the name \"__metadata__\" is taken by the format");
  return std::nullopt;
}

std::optional<std::string> problem_of(const TensorInfo& tensor) {
  if (auto problem = problem_of_name(tensor.name)) return problem;
  if (tensor.shape.size() > kMaxDimensions || !checked_numel(tensor.shape)) {
    return concat("\"", tensor.name, "\" has a shape with more than ", kMaxDimensions,
                  " or negative dimensions, or more bytes than 63 bits count");
  }
  return std::nullopt;
}

std::optional<std::string> problem_of(const TensorInfo& tensor,
                                      std::span<const ElementRun> elements, std::size_t num_bytes) {
  if (auto problem = problem_of(tensor)) return problem;
  if (auto problem = problem_of(elements, *checked_numel(tensor.shape))) {
    return "\"" + tensor.name + "\": " + *problem;
  }
  const auto wanted = static_cast<std::size_t>(num_elements(elements) * size_of(tensor.dtype));
  if (wanted != num_bytes) {
    return concat("\"", tensor.name, "\": the elements take ", wanted, " bytes, but there are ",
                  num_bytes);
  }
  return std::nullopt;
}

std::optional<std::string> problem_of_scalar(std::string_view name, const ScalarValue& value) {
  if (auto problem = problem_of_name(name)) return problem;
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return std::nullopt;
  const bool plain =
      std::all_of(text->begin(), text->end(), [](char c) { return c >= ' ' && c < '\x7f'; });
  if (plain && text->size() <= kMaxTextLength) return std::nullopt;
  return concat("scalar \"", name, "\" is no text of at most ", kMaxTextLength,
                " printable ASCII characters");
}

bool is_whole(const TensorInfo& tensor, std::span<const ElementRun> elements) {
  return elements.size() == 1 && elements[0].repeats == 1 &&
         elements[0].count == checked_numel(tensor.shape);
}

std::string describe(const TensorInfo& tensor) {
  std::string text = std::string(name_of(tensor.dtype)) + " [";
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    if (d > 0) text += ", ";
    text += std::to_string(tensor.shape[d]);
  }
  return text + "]";
}

std::string describe(const ScalarValue& value) { return std::visit(Describer{}, value); }

bool same_scalar(const ScalarValue& a, const ScalarValue& b) {
  if (a.index() != b.index()) return false;
  if (const double* number = std::get_if<double>(&a)) {
    return std::bit_cast<std::uint64_t>(*number) ==
           std::bit_cast<std::uint64_t>(*std::get_if<double>(&b));
  }
  return a == b;
}

}  // namespace shardsim
