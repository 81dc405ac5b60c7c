#include "sim/search/descent.hpp"

#include <algorithm>

#include "sim/search/neighbours.hpp"

namespace shardsim {

namespace {

// Few, so that a better one is gone on from early, and enough for the threads of a workstation.
constexpr std::size_t kStep = 4;
// A best with so many neighbours that are no better is left to the bounds.
constexpr std::size_t kMostNeighbours = 16;

}  // namespace

std::vector<OpenLayouts> Descent::next() {
  const SimulatedPoint* const best =
      found_.best() != nullptr ? found_.best() : found_.nearest_miss();
  if (best == nullptr) return {};
  if (best->index != from_) {
    from_ = best->index;
    left_ = open_neighbours(best->candidate);
  }
  std::vector<OpenLayouts> step;
  while (!left_.empty() && step.size() < kStep) {
    step.push_back(left_.back());
    left_.pop_back();
  }
  return step;
}

std::vector<OpenLayouts> Descent::open_neighbours(const Candidate& candidate) {
  std::vector<OpenLayouts> groups;
  for (const LayoutPlace& place : neighbours_of(space_, candidate)) {
    if (done_.contains(place)) continue;
    groups.push_back({.bound = {}, .place = place, .index = space_.index(place)});
  }
  std::vector<OpenLayouts> near;
  for (const std::vector<OpenLayouts>& parts : bounds_.parts_of(groups)) {
    near.insert(near.end(), parts.begin(), parts.end());
  }
  bounds_.add_ends(near);
  std::erase_if(near, [this](const OpenLayouts& entry) {
    return entry.closeness != Closeness::with_end || found_.is_too_large(entry.bound) ||
           !found_.would_lead(entry.bound);
  });
  std::ranges::sort(near, [this](const OpenLayouts& a, const OpenLayouts& b) {
    if (found_.best() == nullptr && a.bound.device_bytes != b.bound.device_bytes) {
      return a.bound.device_bytes < b.bound.device_bytes;
    }
    return found_.leads(a.bound, b.bound) || (!found_.leads(b.bound, a.bound) && a.index < b.index);
  });
  near.resize(std::min(near.size(), kMostNeighbours));
  std::ranges::reverse(near);
  return near;
}

}  // namespace shardsim
