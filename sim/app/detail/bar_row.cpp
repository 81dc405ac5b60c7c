#include "sim/app/detail/bar_row.hpp"

#include <utility>

namespace shardsim {

namespace {

// Where drawing gets coarser at all: a hundredth of a microsecond is below any kernel.
constexpr Time kFirstBlur = Time::from_picoseconds(10'000);

bool do_the_same(const TimedBar& a, const TimedBar& b) {
  return a.name == b.name && a.microbatch == b.microbatch && a.chunk == b.chunk;
}

}  // namespace

Time BarRow::coarser(Time blur) { return blur == Time() ? kFirstBlur : blur + blur; }

void BarRow::append(const TimedBar& bar) {
  if (!bars_.empty()) {
    TimedBar& last = bars_.back();
    const bool same = do_the_same(last, bar);
    if (same && bar.begin <= last.end + blur_) {
      last.end = max(last.end, bar.end);
      return;
    }
    if (!same && max(last.end, bar.end) - last.begin <= blur_) {
      last.end = max(last.end, bar.end);
      last.name = kSeveral;
      last.chunk = 0;
      if (last.microbatch != bar.microbatch) last.microbatch = -1;
      return;
    }
  }
  bars_.push_back(bar);
}

void BarRow::add(const TimedBar& bar) {
  append(bar);
  while (bars_.size() > kMostBars) coarsen(coarser(blur_));
}

void BarRow::coarsen(Time blur) {
  if (blur <= blur_) return;
  blur_ = blur;
  const std::vector<TimedBar> finer = std::exchange(bars_, {});
  for (const TimedBar& bar : finer) append(bar);
}

}  // namespace shardsim
