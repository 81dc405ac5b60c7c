#include "sim/app/progress.hpp"

#include <ostream>

#include <unistd.h>

namespace shardsim {

Progress::Progress(std::ostream& err, bool enabled)
    : err_(err),
      enabled_(enabled),
      in_place_(isatty(STDERR_FILENO) != 0),
      begin_(Clock::now()),
      next_(begin_ + std::chrono::seconds(1)) {}

void Progress::tick() {
  if (!enabled_) return;
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::seconds(in_place_ ? 1 : 10);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - begin_).count();
  err_ << (in_place_ ? "\r" : "") << "simulating, " << seconds << " s" << (in_place_ ? "" : "\n")
       << std::flush;
  shown_ = true;
}

void Progress::done() {
  if (shown_ && in_place_) err_ << "\r\033[K" << std::flush;
  shown_ = false;
}

}  // namespace shardsim
