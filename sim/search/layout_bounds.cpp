#include "sim/search/layout_bounds.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "sim/kernel/error.hpp"

#include "sim/console/parallel.hpp"
#include "sim/search/step_end.hpp"

namespace shardsim {

// The bounds of one thread, with what they share.
class LayoutBounds::Prober {
 public:
  Prober(const SearchBase& base, const LayoutSpace& space)
      : space_(space),
        experiment_(compile(base.scenario)),
        bounds_(experiment_),
        ends_(base, experiment_) {}

  [[nodiscard]] Bound least(const LayoutPlace& place, std::span<const DataChoice> data) {
    return bounds_.least(space_.candidate(place), smallest_choices(data));
  }

  [[nodiscard]] std::vector<OpenLayouts> parts_of(const OpenLayouts& group) {
    const std::vector<DataChoice>& data = space_.blocks()[group.place.block].data;
    const std::uint32_t end = group.place.data + group.num_data;
    const bool cuts_alike = data[group.place.data].cuts_experts_as(data[end - 1]);
    std::vector<OpenLayouts> parts;
    OpenLayouts part = group;
    for (; part.place.data < end; part.place.data += part.num_data) {
      part.index = space_.index(part.place);
      part.num_data = 1;
      if (cuts_alike) {
        part.closeness = Closeness::one;
        part.bound = tight_bound(group.bound, space_.candidate(part.place));
      } else {
        const DataChoice& first = data[part.place.data];
        while (part.place.data + part.num_data < end &&
               first.cuts_experts_as(data[part.place.data + part.num_data])) {
          ++part.num_data;
        }
        part.bound = least_or(group.bound, part.place,
                              std::span(data).subspan(part.place.data, part.num_data));
      }
      parts.push_back(part);
    }
    return parts;
  }

  void add_end(OpenLayouts& layout) {
    layout.closeness = Closeness::with_end;
    const Candidate candidate = space_.candidate(layout.place);
    if (!BoundTable::plays(candidate)) return;
    try {
      const PipelineStages stages = bounds_.stages_of(candidate);
      const std::int64_t message = bounds_.play(candidate, stages).message;
      const std::int64_t step = ends_.least_step(candidate, stages, message);
      layout.bound.step_ps = std::max(layout.bound.step_ps, step);
    } catch (const UsageError&) {
    } catch (const LimitError&) {
    }
  }

 private:
  // Experts' tensors may be larger than any can be: then the group's bound stays, and runs report
  // the error.
  [[nodiscard]] Bound least_or(const Bound& known, const LayoutPlace& place,
                               std::span<const DataChoice> data) {
    try {
      return least(place, data);
    } catch (const LimitError&) {
      return known;
    }
  }

  // A candidate with an impossible schedule keeps its quick bound, and one of which the costs have
  // no sum keeps the group's: its run reports the error.
  [[nodiscard]] Bound tight_bound(const Bound& known, const Candidate& candidate) {
    try {
      try {
        return bounds_.close(candidate);
      } catch (const UsageError&) {
        return bounds_.quick(candidate);
      }
    } catch (const LimitError&) {
      return known;
    }
  }

  const LayoutSpace& space_;
  const Experiment experiment_;
  BoundTable bounds_;
  StepEnds ends_;
};

LayoutBounds::LayoutBounds(const SearchBase& base, const LayoutSpace& space, Hooks hooks)
    : base_(base), space_(space), hooks_(std::move(hooks)) {
  probers_.emplace_back(base, space);
}

LayoutBounds::~LayoutBounds() = default;

void LayoutBounds::for_each(std::size_t count,
                            const std::function<void(Prober&, std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  const auto body = [&](std::size_t thread) {
    for (std::size_t i = next++; i < count && !hooks_.is_over(); i = next++) {
      work(probers_[thread], i);
    }
  };
  const std::size_t threads = std::min(count, static_cast<std::size_t>(hooks_.jobs_now()));
  while (probers_.size() < threads) probers_.emplace_back(base_, space_);
  run_parallel(
      threads, static_cast<int>(std::max<std::size_t>(threads, 1)),
      {.body = body, .finished = [this](std::size_t) { hooks_.tell_progress(); }, .stop = {}});
}

Bound LayoutBounds::least(const LayoutPlace& place) {
  return probers_.front().least(place, space_.blocks()[place.block].data);
}

std::vector<std::vector<OpenLayouts>> LayoutBounds::parts_of(std::span<const OpenLayouts> groups) {
  std::vector<std::vector<OpenLayouts>> parts(groups.size());
  for_each(groups.size(),
           [&](Prober& prober, std::size_t i) { parts[i] = prober.parts_of(groups[i]); });
  return parts;
}

void LayoutBounds::add_ends(std::span<OpenLayouts> candidates) {
  for_each(candidates.size(),
           [&](Prober& prober, std::size_t i) { prober.add_end(candidates[i]); });
}

}  // namespace shardsim
