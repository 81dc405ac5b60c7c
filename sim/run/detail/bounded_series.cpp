#include "sim/run/detail/bounded_series.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace shardsim {

namespace {

// The first step of coarser drawing: a hundredth of a microsecond is below any kernel.
constexpr Time kFirstBlur = Time::from_picoseconds(10'000);

bool do_the_same(const TimedBar& a, const TimedBar& b) {
  return a.name == b.name && a.microbatch == b.microbatch && a.chunk == b.chunk;
}

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

// --- Bars --------------------------------------------------------------------------------------

Time BarRow::coarser(Time blur) { return blur == Time() ? kFirstBlur : blur + blur; }

// One bar for both: it keeps the first one's name if they do the same.
void BarRow::join(TimedBar& into, const TimedBar& bar) {
  into.begin = min(into.begin, bar.begin);
  into.end = max(into.end, bar.end);
  if (do_the_same(into, bar)) return;
  into.name = kSeveral;
  into.chunk = 0;
  if (into.microbatch != bar.microbatch) into.microbatch = -1;
}

void BarRow::append(const TimedBar& bar) {
  if (!bars_.empty()) {
    TimedBar& last = bars_.back();
    const bool same = do_the_same(last, bar);
    const bool touches = same && bar.begin <= last.end + blur_;
    const bool is_small = !same && max(last.end, bar.end) - last.begin <= blur_;
    if (touches || is_small) return join(last, bar);
  }
  bars_.push_back(bar);
}

// If a rank waits for communications in another order than it posted them, bars come in that order.
void BarRow::insert(const TimedBar& bar) {
  const auto later =
      std::upper_bound(bars_.begin(), bars_.end(), bar.begin,
                       [](Time begin, const TimedBar& other) { return begin < other.begin; });
  // Inside a bar that is drawn as one.
  if (later != bars_.begin() && bar.begin < std::prev(later)->end) {
    return join(*std::prev(later), bar);
  }
  if (later != bars_.end() && later->begin < bar.end) return join(*later, bar);
  bars_.insert(later, bar);
}

void BarRow::add(const TimedBar& bar) {
  if (bars_.empty() || bars_.back().begin <= bar.begin) {
    append(bar);
  } else {
    insert(bar);
  }
  while (bars_.size() > kMostBars) coarsen(coarser(blur_));
}

void BarRow::coarsen(Time blur) {
  if (blur <= blur_) return;
  blur_ = blur;
  const std::vector<TimedBar> finer = std::exchange(bars_, {});
  for (const TimedBar& bar : finer) append(bar);
}

// --- Memory ------------------------------------------------------------------------------------

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
