#include "strategies/model/parameter.hpp"

#include <algorithm>

#include "sim/kernel/error.hpp"
#include "sim/kernel/random.hpp"

namespace shardsim {

namespace {

double initial_value(const Init& init, const RandomStream& random, std::uint64_t index) {
  switch (init.kind) {
    case Init::Kind::zeros:
      return 0.0;
    case Init::Kind::ones:
      return 1.0;
    case Init::Kind::bell:
      return init.scale * random.bell(index);
    case Init::Kind::integers: {
      const auto bound = static_cast<std::uint64_t>(init.scale);
      return static_cast<double>(random.below(index, 2 * bound + 1)) - static_cast<double>(bound);
    }
  }
  return 0.0;
}

// A split parameter as [outer, axis, inner]: the sizes around the cut dimension.
struct CutShape {
  explicit CutShape(const ParameterSpec& spec) {
    const TensorSplit& split = spec.split;
    for (int axis = split.axis + 1; axis < split.whole.rank(); ++axis) inner *= split.whole[axis];
    whole_axis = split.whole[split.axis];
    part_axis = spec.shape[split.axis];
  }
  std::int64_t inner = 1;
  std::int64_t whole_axis = 0;
  std::int64_t part_axis = 0;
};

// A part that is a slice of a part along the first axis: [outer, axis, inner] around the axis of
// the slice, where `outer` begins with the first axis.
void for_each_sliced_run(const ParameterSpec& spec, int part, std::int64_t first,
                         std::int64_t count, const std::function<void(const WholeRun&)>& visit) {
  const TensorSplit& split = spec.split;
  std::int64_t inner = 1;
  for (int axis = split.slice_axis + 1; axis < split.whole.rank(); ++axis) {
    inner *= split.whole[axis];
  }
  const std::int64_t row = split.whole[split.slice_axis] * inner;
  const std::int64_t own_row = row / split.slices;
  const std::int64_t before = part / split.slices * (spec.shape.numel() / own_row);
  const std::int64_t slice = part % split.slices;
  const std::int64_t end = first + count;
  for (std::int64_t element = first; element < end;) {
    const std::int64_t at = element % own_row;
    const std::int64_t here = std::min(own_row - at, end - element);
    visit({(before + element / own_row) * row + slice * own_row + at, element - first, here});
    element += here;
  }
}

// Index along the axis of the whole at which element `local` of the part's axis lies, and how many
// elements from there on are consecutive in both; `whole` is -1 for elements that fill up.
struct AxisRun {
  std::int64_t whole;
  std::int64_t count;
};

AxisRun find_on_axis(const TensorSplit& split, int part, std::int64_t local) {
  std::int64_t section_begin = 0;
  for (const std::int64_t section : split.sections) {
    const std::int64_t share = (section + split.parts - 1) / split.parts;
    if (local < share) {
      const std::int64_t in_section = part * share + local;
      if (in_section >= section) return {-1, share - local};
      const std::int64_t end = std::min(section, (part + 1) * share);
      return {section_begin + in_section, end - in_section};
    }
    local -= share;
    section_begin += section;
  }
  throw Error(ExitCode::internal, "E7012", "a part of a parameter is longer than its sections");
}

}  // namespace

void for_each_whole_run(const ParameterSpec& spec, int part, std::int64_t first, std::int64_t count,
                        const std::function<void(const WholeRun&)>& visit) {
  if (!spec.is_split()) return visit({first, 0, count});
  if (spec.split.is_sliced()) return for_each_sliced_run(spec, part, first, count, visit);
  const CutShape cut(spec);
  const std::int64_t end = first + count;
  for (std::int64_t element = first; element < end;) {
    const std::int64_t inner = element % cut.inner;
    const std::int64_t axis = element / cut.inner % cut.part_axis;
    const std::int64_t outer = element / cut.inner / cut.part_axis;
    const AxisRun run = find_on_axis(spec.split, part, axis);
    const std::int64_t here = std::min(run.count * cut.inner - inner, end - element);
    if (run.whole >= 0) {
      const std::int64_t whole = (outer * cut.whole_axis + run.whole) * cut.inner + inner;
      visit({whole, element - first, here});
    }
    element += here;
  }
}

std::vector<ElementRange> filling(const ParameterSpec& spec, int part) {
  const TensorSplit& split = spec.split;
  if (split.is_sliced()) return {};
  const auto divides = [&](std::int64_t section) { return section % split.parts == 0; };
  if (std::all_of(split.sections.begin(), split.sections.end(), divides)) return {};
  // The gaps between its runs.
  std::vector<ElementRange> ranges;
  std::int64_t end = 0;
  const auto fill_to = [&](std::int64_t begin) {
    if (begin > end) ranges.push_back({end, begin});
  };
  for_each_whole_run(spec, part, 0, spec.shape.numel(), [&](const WholeRun& run) {
    fill_to(run.at);
    end = run.at + run.count;
  });
  fill_to(spec.shape.numel());
  return ranges;
}

std::int64_t num_filling(const ParameterSpec& spec, int part, std::int64_t first,
                         std::int64_t count) {
  return overlap(filling(spec, part), first, first + count);
}

void initialize(const ParameterSpec& spec, int part, std::uint64_t seed, std::int64_t first,
                const Tensor& values) {
  const RandomStream random(seed, spec.name);
  for_each_whole_run(spec, part, first, values.numel(), [&](const WholeRun& run) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      const auto index = static_cast<std::uint64_t>(run.whole_first + i);
      values.set(run.at + i, initial_value(spec.init, random, index));
    }
  });
}

}  // namespace shardsim
