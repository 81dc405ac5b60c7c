#include "sim/run/draws/simulated_training.hpp"

#include <algorithm>
#include <cmath>

namespace shardsim {

namespace {

// When the next failure comes, on the one clock of the training.
class FailureClock {
 public:
  FailureClock(double mtbf_s, const RandomStream& draws) : mtbf_s_(mtbf_s), draws_(draws) {
    draw();
  }

  /// Lets up to `duration` pass. How long it was until a failure came, or all of it.
  double pass(double duration, bool& failed) {
    failed = left_s_ < duration;
    if (!failed) {
      left_s_ -= duration;
      return duration;
    }
    const double passed = left_s_;
    draw();
    ++failures_;
    return passed;
  }
  [[nodiscard]] std::int64_t failures() const { return failures_; }

 private:
  void draw() { left_s_ = -mtbf_s_ * std::log1p(-draws_.uniform(next_++)); }

  double mtbf_s_;
  RandomStream draws_;
  std::uint64_t next_ = 0;
  double left_s_ = 0.0;
  std::int64_t failures_ = 0;
};

// Where the time of one segment goes.
struct Segment {
  double wall_s = 0.0;
  double rework_s = 0.0;
  double restart_s = 0.0;
  bool done = false;
};

Segment pass_segment(FailureClock& clock, const FailureModel& model, double length_s,
                     std::int64_t most_failures) {
  Segment segment;
  bool failed = true;
  while (!segment.done && clock.failures() < most_failures) {
    const double worked = clock.pass(length_s, failed);
    segment.wall_s += worked;
    segment.done = !failed;
    if (failed) segment.rework_s += worked;
    while (failed && clock.failures() < most_failures) {
      const double restarted = clock.pass(model.restart_s, failed);
      segment.wall_s += restarted;
      segment.restart_s += restarted;
    }
  }
  return segment;
}

}  // namespace

SimulatedTraining simulate_training(const FailureModel& model, double interval_s,
                                    std::int64_t segments, const RandomStream& draws,
                                    std::int64_t most_failures) {
  FailureClock clock(model.mtbf_s, draws);
  double rework = 0.0;
  double restart = 0.0;
  double sum = 0.0;
  double squares = 0.0;
  std::int64_t done = 0;
  while (done < segments) {
    const Segment segment =
        pass_segment(clock, model, interval_s + model.checkpoint_s, most_failures);
    rework += segment.rework_s;
    restart += segment.restart_s;
    sum += segment.wall_s;
    squares += segment.wall_s * segment.wall_s;
    if (!segment.done) break;
    ++done;
  }
  const auto count = static_cast<double>(done);
  const double divisor = std::max(count, 1.0);
  const double mean = sum / divisor;
  const double variance = squares / divisor - mean * mean;
  return {.shares = {.useful = count * interval_s / sum,
                     .checkpoint = count * model.checkpoint_s / sum,
                     .rework = rework / sum,
                     .restart = restart / sum},
          .segments = done,
          .wall_s = sum,
          .mean_segment_s = mean,
          .standard_error_s = std::sqrt(std::max(0.0, variance) / divisor),
          .failures = clock.failures()};
}

}  // namespace shardsim
