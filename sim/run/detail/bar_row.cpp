#include "sim/run/detail/bar_row.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace shardsim {

namespace {

// The first step of coarser drawing: a hundredth of a microsecond is below any kernel.
constexpr Time kFirstBlur = Time::from_picoseconds(10'000);

bool do_the_same(const TimedBar& a, const TimedBar& b) {
  return a.name == b.name && a.microbatch == b.microbatch && a.chunk == b.chunk;
}

}  // namespace

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

}  // namespace shardsim
