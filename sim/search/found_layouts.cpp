#include "sim/search/found_layouts.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>

#include "sim/run/device_memory.hpp"

namespace shardsim {

namespace {

constexpr double kPicosecondsPerSecond = 1e12;

double seconds(const Bound& bound) {
  return static_cast<double>(bound.step_ps) / kPicosecondsPerSecond;
}

}  // namespace

double gap_of(double best, double lower_bound) {
  return lower_bound > 0 ? std::max(0.0, best / lower_bound - 1.0)
                         : std::numeric_limits<double>::infinity();
}

bool is_proven(const SimulatedPoint& best, const std::optional<double>& gap) {
  return !best.is_tight && gap == 0.0;
}

bool ranks_before(const SimulatedPoint& a, const SimulatedPoint& b, Objective objective) {
  if (objective == Objective::memory) {
    return std::tie(a.is_tight, a.device_bytes, a.step_time_s, a.index) <
           std::tie(b.is_tight, b.device_bytes, b.step_time_s, b.index);
  }
  return std::tie(a.is_tight, a.step_time_s, a.device_bytes, a.index) <
         std::tie(b.is_tight, b.step_time_s, b.device_bytes, b.index);
}

std::vector<SimulatedPoint> pareto_front(const std::vector<SimulatedPoint>& points, double within) {
  std::vector<SimulatedPoint> sorted;
  std::ranges::copy_if(points, std::back_inserter(sorted), &SimulatedPoint::fits);
  std::ranges::sort(sorted, {}, [](const SimulatedPoint& point) {
    return std::tie(point.step_time_s, point.device_bytes, point.index);
  });
  std::vector<SimulatedPoint> front;
  for (const SimulatedPoint& point : sorted) {
    if (!front.empty() && point.step_time_s > within * front.front().step_time_s) break;
    if (front.empty() || point.device_bytes < front.back().device_bytes) front.push_back(point);
  }
  return front;
}

std::vector<SimulatedPoint> best_of_families(const std::vector<SimulatedPoint>& points) {
  std::vector<SimulatedPoint> best;
  for (const SimulatedPoint& point : points) {
    const auto is_of_family = [&point](const SimulatedPoint& other) {
      return family_of(other.candidate) == family_of(point.candidate);
    };
    if (std::ranges::none_of(best, is_of_family)) best.push_back(point);
  }
  return best;
}

void FoundLayouts::keep(const SimulatedPoint& point) {
  if (!point.fits) {
    if (!miss_ || point.device_bytes < miss_->device_bytes) miss_ = point;
    return;
  }
  const auto place = std::upper_bound(best_.begin(), best_.end(), point,
                                      [&](const SimulatedPoint& a, const SimulatedPoint& b) {
                                        return ranks_before(a, b, request_.objective);
                                      });
  best_.insert(place, point);
  best_ = best_of_families(best_);
  if (best_.size() > static_cast<std::size_t>(request_.top)) best_.pop_back();
  front_.push_back(point);
  front_ = pareto_front(front_, request_.front_within);
}

double FoundLayouts::objective_of(const Bound& bound) const {
  return request_.objective == Objective::memory ? static_cast<double>(bound.device_bytes)
                                                 : seconds(bound);
}

double FoundLayouts::objective_of(const SimulatedPoint& point) const {
  return request_.objective == Objective::memory ? static_cast<double>(point.device_bytes)
                                                 : point.step_time_s;
}

bool FoundLayouts::is_tight(const Bound& bound) const {
  return !leaves_margin(experiment_, bound.device_bytes);
}

FoundLayouts::Rank FoundLayouts::rank_of(const Bound& bound) const {
  return {is_tight(bound), objective_of(bound)};
}

FoundLayouts::Rank FoundLayouts::rank_of(const SimulatedPoint& point) const {
  return {point.is_tight, objective_of(point)};
}

bool FoundLayouts::is_below_best(const Bound& bound, const LayoutFamily& family) const {
  const auto own = std::ranges::find(
      best_, family, [](const SimulatedPoint& point) { return family_of(point.candidate); });
  if (own != best_.end()) return rank_of(bound) > rank_of(*own);
  const auto top = static_cast<std::size_t>(request_.top);
  if (best_.size() < top) return false;
  return rank_of(bound) > rank_of(best_[top - 1]);
}

bool FoundLayouts::is_behind_by_margin(const Bound& bound) const {
  return !best_.empty() && !best_.front().is_tight && is_tight(bound);
}

bool FoundLayouts::is_behind(const Bound& bound, const SimulatedPoint& point) const {
  return rank_of(bound) > rank_of(point);
}

bool FoundLayouts::leads(const Bound& a, const Bound& b) const { return rank_of(a) < rank_of(b); }

bool FoundLayouts::would_lead(const Bound& bound) const {
  return best_.empty() || rank_of(bound) < rank_of(best_.front());
}

bool FoundLayouts::is_off_front(const Bound& bound) const {
  const double least = seconds(bound);
  if (!front_.empty() && least > request_.front_within * front_.front().step_time_s) return true;
  return std::any_of(front_.begin(), front_.end(), [&](const SimulatedPoint& point) {
    return (point.step_time_s < least && point.device_bytes <= bound.device_bytes) ||
           (point.step_time_s <= least && point.device_bytes < bound.device_bytes);
  });
}

bool FoundLayouts::is_too_large(const Bound& bound) const {
  return bound.device_bytes > experiment_.scenario().system.device.memory_bytes;
}

BoundVerdict FoundLayouts::judge(const Bound& bound, const LayoutFamily& family) const {
  if (is_too_large(bound)) return BoundVerdict::too_large;
  return is_below_best(bound, family) && is_off_front(bound) ? BoundVerdict::slower
                                                             : BoundVerdict::open;
}

}  // namespace shardsim
