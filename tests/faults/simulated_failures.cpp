#include "tests/faults/simulated_failures.hpp"

#include <cmath>

#include "sim/kernel/random.hpp"

namespace shardsim::test {

namespace {

// When the next failure comes, on the one clock of the training.
class FailureClock {
 public:
  FailureClock(double mtbf_s, std::uint64_t seed) : mtbf_s_(mtbf_s), draws_(seed, "failures") {
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

}  // namespace

SimulatedTraining simulate_training(const FailureModel& model, double interval_s, int segments,
                                    std::uint64_t seed) {
  FailureClock clock(model.mtbf_s, seed);
  double rework = 0.0;
  double restart = 0.0;
  double sum = 0.0;
  double squares = 0.0;
  for (int segment = 0; segment < segments; ++segment) {
    double wall = 0.0;
    bool failed = true;
    for (bool done = false; !done;) {
      const double worked = clock.pass(interval_s + model.checkpoint_s, failed);
      wall += worked;
      done = !failed;
      if (failed) rework += worked;
      while (failed) {
        const double restarted = clock.pass(model.restart_s, failed);
        wall += restarted;
        restart += restarted;
      }
    }
    sum += wall;
    squares += wall * wall;
  }
  const double mean = sum / segments;
  return {.shares = {.useful = segments * interval_s / sum,
                     .checkpoint = segments * model.checkpoint_s / sum,
                     .rework = rework / sum,
                     .restart = restart / sum},
          .mean_segment_s = mean,
          .standard_error_s = std::sqrt((squares / segments - mean * mean) / segments),
          .failures = clock.failures()};
}

}  // namespace shardsim::test
