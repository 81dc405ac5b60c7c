#include "sim/run/detail/curve_thinner.hpp"

#include <numeric>
#include <utility>

namespace shardsim {

namespace {

// Keeps the first and the last, and the higher one of each two between them.
std::vector<TimedUse> halved(const std::vector<TimedUse>& points) {
  std::vector<TimedUse> kept = {points.front()};
  for (std::size_t i = 1; i + 1 < points.size(); i += 2) {
    const bool has_next = i + 2 < points.size();
    const bool takes_next = has_next && total_of(points[i + 1].bytes) > total_of(points[i].bytes);
    kept.push_back(points[takes_next ? i + 1 : i]);
  }
  kept.push_back(points.back());
  return kept;
}

}  // namespace

std::int64_t total_of(const MemoryUse& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

void CurveThinner::add(const TimedUse& point) {
  if (is_open_ && point.time == left_.time) {
    left_ = point;
    if (total_of(point.bytes) > total_of(most_.bytes)) most_ = point;
    return;
  }
  close_instant();
  is_open_ = true;
  most_ = left_ = point;
}

void CurveThinner::close_instant() {
  if (!std::exchange(is_open_, false)) return;
  // A peak above the values before and after must be visible, though it lasted no time.
  if (total_of(most_.bytes) > total_of(left_.bytes)) points_.push_back(most_);
  points_.push_back(left_);
  if (points_.size() < kMostKept) return;
  points_ = halved(points_);
  has_thinned_ = true;
}

std::vector<TimedUse> CurveThinner::finish() {
  close_instant();
  return std::exchange(points_, {});
}

std::vector<TimedUse> CurveThinner::thinned(std::vector<TimedUse> points, std::size_t most) {
  constexpr std::size_t kEnds = 3;
  while (points.size() > most && points.size() > kEnds) points = halved(points);
  return points;
}

}  // namespace shardsim
