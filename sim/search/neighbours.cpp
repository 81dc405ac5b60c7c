#include "sim/search/neighbours.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

namespace shardsim {

namespace {

// How many times one number must double to be the other.
double doublings(std::int64_t a, std::int64_t b) {
  return std::abs(std::log2(static_cast<double>(a)) - std::log2(static_cast<double>(b)));
}

// The index of the first that has the least distance.
template <class List, class Distance>
std::uint32_t nearest_in(const List& list, const Distance& distance) {
  const auto least = std::ranges::min_element(
      list, [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  return static_cast<std::uint32_t>(std::distance(list.begin(), least));
}

LayoutPlace nearest_in(const LayoutSpace& space, std::uint32_t index, const Candidate& wanted) {
  const LayoutBlock& block = space.blocks()[index];
  LayoutPlace place;
  place.block = index;
  place.batch = nearest_in(block.batches, [&wanted](const BatchChoice& batch) {
    return std::tuple(batch.recompute != wanted.recompute,
                      doublings(batch.micro_batch_size, wanted.micro_batch_size),
                      batch.sequence_parallel != wanted.sequence_parallel);
  });
  place.schedule =
      nearest_in(block.batches[place.batch].schedules, [&wanted](const ScheduleChoice& schedule) {
        return std::tuple(schedule.schedule != wanted.schedule,
                          doublings(schedule.vpp, wanted.vpp));
      });
  place.data = nearest_in(block.data, [&wanted](const DataChoice& data) {
    return std::tuple(doublings(data.ep, wanted.ep), data.etp != wanted.etp,
                      data.zero_stage != wanted.zero_stage,
                      doublings(data.dp_replicate, wanted.dp_replicate));
  });
  return place;
}

using Degree = std::int64_t Candidate::*;

// Half of each; none if it is odd.
bool halve(Candidate& candidate, Degree degree) {
  if (candidate.*degree % 2 != 0) return false;
  candidate.*degree /= 2;
  return true;
}

void add_degrees(const Candidate& candidate, std::vector<Candidate>& changed) {
  constexpr Degree kSplits[] = {&Candidate::tp, &Candidate::cp, &Candidate::pp, &Candidate::ep};
  constexpr Degree kOthers[] = {&Candidate::dp_replicate, &Candidate::vpp,
                                &Candidate::micro_batch_size};
  const auto add = [&](Degree more, Degree less) {
    Candidate next = candidate;
    if (less != nullptr && !halve(next, less)) return;
    if (more != nullptr) next.*more *= 2;
    changed.push_back(next);
  };
  for (const Degree degree : kOthers) {
    add(degree, nullptr);
    add(nullptr, degree);
  }
  for (const Degree degree : kSplits) {
    add(degree, nullptr);
    add(nullptr, degree);
    for (const Degree other : kSplits) {
      if (other != degree) add(degree, other);
    }
  }
}

void add_choices(const LayoutBlock& block, const Candidate& candidate,
                 std::vector<Candidate>& changed) {
  Candidate next = candidate;
  for (const DataChoice& data : block.data) {
    next.zero_stage = data.zero_stage;
    changed.push_back(next);
  }
  next = candidate;
  for (const BatchChoice& batch : block.batches) {
    next.recompute = batch.recompute;
    changed.push_back(next);
  }
  next = candidate;
  for (const BatchChoice& batch : block.batches) {
    for (const ScheduleChoice& schedule : batch.schedules) {
      next.schedule = schedule.schedule;
      changed.push_back(next);
    }
  }
}

}  // namespace

std::vector<LayoutPlace> neighbours_of(const LayoutSpace& space, const Candidate& candidate) {
  const auto index_of = [&space](const Candidate& wanted) {
    const auto block = std::ranges::find_if(space.blocks(), [&wanted](const LayoutBlock& other) {
      return other.tp == wanted.tp && other.cp == wanted.cp && other.pp == wanted.pp;
    });
    return static_cast<std::size_t>(std::distance(space.blocks().begin(), block));
  };
  std::vector<Candidate> changed;
  add_degrees(candidate, changed);
  add_choices(space.blocks()[index_of(candidate)], candidate, changed);
  std::vector<LayoutPlace> places;
  std::set<std::size_t> seen;
  for (const Candidate& next : changed) {
    const std::size_t block = index_of(next);
    if (block == space.blocks().size()) continue;
    const LayoutPlace place = nearest_in(space, static_cast<std::uint32_t>(block), next);
    if (space.candidate(place) == candidate || !seen.insert(space.index(place)).second) continue;
    places.push_back(place);
  }
  return places;
}

}  // namespace shardsim
