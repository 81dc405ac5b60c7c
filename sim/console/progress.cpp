#include "sim/console/progress.hpp"

#include <cstdlib>
#include <ostream>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

namespace shardsim {

namespace {

constexpr int kSecondsBetweenLines = 10;  // On a terminal that cannot overwrite a line.

bool can_overwrite() {
  const char* const term = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && (term == nullptr || std::string_view(term) != "dumb");
}

}  // namespace

std::string duration_words(std::chrono::seconds duration) {
  using std::chrono::hours;
  using std::chrono::minutes;
  const auto whole_hours = std::chrono::duration_cast<hours>(duration);
  const auto whole_minutes = std::chrono::duration_cast<minutes>(duration - whole_hours);
  const auto seconds = duration - whole_hours - whole_minutes;
  if (whole_hours.count() > 0) {
    return fmt::format("{} h {} min", whole_hours.count(), whole_minutes.count());
  }
  if (whole_minutes.count() > 0) {
    return fmt::format("{} min {} s", whole_minutes.count(), seconds.count());
  }
  return fmt::format("{} s", seconds.count());
}

std::string progress_words(std::size_t done, std::size_t total, std::chrono::milliseconds elapsed) {
  using std::chrono::duration_cast;
  using std::chrono::seconds;
  const std::string so_far =
      fmt::format("{} of {}, {}", done, total, duration_words(duration_cast<seconds>(elapsed)));
  if (done == 0 || done >= total) return so_far;
  const double left = static_cast<double>(elapsed.count()) * static_cast<double>(total - done) /
                      static_cast<double>(done);
  // Rounded up: an estimate of zero would be too small.
  const auto rest = std::chrono::ceil<seconds>(
      std::chrono::milliseconds(static_cast<std::chrono::milliseconds::rep>(left)));
  return so_far + ", about " + duration_words(rest) + " left";
}

Progress::Progress(std::ostream& err, bool enabled, Where where)
    : err_(err),
      enabled_(enabled && (where == Where::everywhere || can_overwrite())),
      in_place_(can_overwrite()),
      begin_(Clock::now()),
      next_(begin_ + std::chrono::seconds(1)) {}

void Progress::tick() { tick("simulating"); }

void Progress::tick(std::size_t done, std::size_t total) {
  tell_if_due([&](std::chrono::milliseconds spent) { return progress_words(done, total, spent); });
}

void Progress::tick(const std::string& words) {
  tell_if_due([&](std::chrono::milliseconds spent) {
    return words + ", " + duration_words(std::chrono::duration_cast<std::chrono::seconds>(spent));
  });
}

void Progress::done() {
  if (shown_ && in_place_) err_ << "\r\033[K" << std::flush;
  shown_ = false;
}

std::chrono::seconds Progress::elapsed() const {
  return std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin_);
}

double Progress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - begin_).count();
}

template <class Words>
void Progress::tell_if_due(const Words& words) {
  if (!enabled_) return;
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::seconds(in_place_ ? 1 : kSecondsBetweenLines);
  err_ << (in_place_ ? "\r\033[K" : "")
       << words(std::chrono::duration_cast<std::chrono::milliseconds>(now - begin_))
       << (in_place_ ? "" : "\n") << std::flush;
  shown_ = true;
}

}  // namespace shardsim
