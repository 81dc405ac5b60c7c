#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/run/draws/simulated_training.hpp"
#include "sim/run/whole_training.hpp"

#include "tests/property/check_property.hpp"

// The closed forms against published values, each other, and single failures.
namespace shardsim::test {
namespace {

constexpr double kMinute = 60.0;
constexpr double kHour = 3600.0;

// The machine of Daly's figures 3 to 5: R = 10 min, C = 5 min.
FailureModel daly_machine(double mtbf_s) {
  return {.mtbf_s = mtbf_s, .checkpoint_s = 5 * kMinute, .restart_s = 10 * kMinute};
}

}  // namespace

TEST_CASE("Daly's own examples: 117 min, 57 min and 9.1 min") {
  CHECK(std::lround(daly_interval_s(daly_machine(24 * kHour)) / kMinute) == 117);
  CHECK(std::lround(daly_interval_s(daly_machine(6 * kHour)) / kMinute) == 57);
  CHECK(std::lround(10 * daly_interval_s(daly_machine(15 * kMinute)) / kMinute) == 91);
  // Failures so frequent that a checkpoint takes two of their intervals, and more.
  CHECK(daly_interval_s(daly_machine(2.5 * kMinute)) == 2.5 * kMinute);
  CHECK(daly_interval_s(daly_machine(1 * kMinute)) == 1 * kMinute);
}

TEST_CASE("Young's estimate is sqrt(2 C M)") {
  CHECK(young_interval_s({.mtbf_s = 5000, .checkpoint_s = 4, .restart_s = 1}) == 200.0);
}

TEST_CASE("the best interval is the best, and Daly's is near it") {
  for (const double checkpoint_s : {0.01, 1.0, 30.0, 300.0, 1800.0}) {
    const FailureModel model{.mtbf_s = 4 * kHour, .checkpoint_s = checkpoint_s, .restart_s = 600};
    const double best = best_interval_s(model);
    INFO("C = " << checkpoint_s << " s, best " << best << " s, Daly " << daly_interval_s(model));
    const double most = time_shares(model, best).useful;
    for (const double factor : {0.5, 0.9, 0.99, 1.01, 1.1, 2.0}) {
      CHECK(time_shares(model, best * factor).useful < most);
    }
    // The series stops at C / 2M: what it leaves out is small where that is below a sixteenth.
    CHECK(std::fabs(daly_interval_s(model) / best - 1.0) < 0.01);
    CHECK(time_shares(model, daly_interval_s(model)).useful > most - 1e-5);
    // The estimate of first order is the worse one.
    CHECK(std::fabs(young_interval_s(model) - best) > std::fabs(daly_interval_s(model) - best));
  }
}

TEST_CASE("shares of the time sum to one, and are those of the expected segment") {
  check_property(500, [] {
    const auto any = [](int low, int high) {
      return std::exp2(*rc::gen::inRange(low, high) / 4.0);
    };
    const FailureModel model{
        .mtbf_s = any(0, 100), .checkpoint_s = any(-20, 40), .restart_s = any(-20, 50)};
    const double interval_s = any(-10, 80);
    const TimeShares shares = time_shares(model, interval_s);
    for (const double share : {shares.useful, shares.checkpoint, shares.rework, shares.restart}) {
      RC_ASSERT(share >= 0.0 && share <= 1.0);
    }
    const double sum = shares.useful + shares.checkpoint + shares.rework + shares.restart;
    RC_ASSERT(std::fabs(sum - 1.0) < 1e-12);
    const double expected_s = expected_segment_s(model, interval_s);
    RC_PRE(std::isfinite(expected_s));
    RC_ASSERT(std::fabs(shares.useful * expected_s - interval_s) <= 1e-9 * interval_s);
    RC_ASSERT(std::fabs(shares.checkpoint * expected_s - model.checkpoint_s) <=
              1e-9 * model.checkpoint_s);
  });
}

TEST_CASE("fewer failures, shorter checkpoints and shorter restarts never lower the goodput") {
  check_property(300, [] {
    const auto any = [](int low, int high) {
      return std::exp2(*rc::gen::inRange(low, high) / 4.0);
    };
    const FailureModel model{
        .mtbf_s = any(20, 80), .checkpoint_s = any(-10, 40), .restart_s = any(-10, 40)};
    const double interval_s = any(0, 60);
    const double useful = time_shares(model, interval_s).useful;
    FailureModel better = model;
    better.mtbf_s *= 1.5;
    RC_ASSERT(time_shares(better, interval_s).useful >= useful);
    better = model;
    better.checkpoint_s /= 2;
    RC_ASSERT(time_shares(better, interval_s).useful >= useful);
    better = model;
    better.restart_s /= 2;
    RC_ASSERT(time_shares(better, interval_s).useful >= useful);
  });
}

TEST_CASE("where failures never leave a segment alone there is no goodput, and no NaN") {
  const FailureModel hopeless{.mtbf_s = 1.0, .checkpoint_s = 5000.0, .restart_s = 5000.0};
  const TimeShares shares = time_shares(hopeless, 5000.0);
  CHECK(shares.useful == 0.0);
  CHECK(shares.restart == 1.0);
  CHECK(shares.rework == 0.0);
}

// Single failures, drawn from a seed. A mean of n segments is within four of its standard errors,
// which the segments' own spread tells; a share's error is that of the mean, relatively.
TEST_CASE("a simulation of single failures finds the expected time and its shares") {
  struct Setting {
    FailureModel model;
    double interval_s;
  };
  const std::vector<Setting> settings = {
      {daly_machine(24 * kHour), 117 * kMinute},
      {daly_machine(6 * kHour), 57 * kMinute},
      {daly_machine(15 * kMinute), 9.1 * kMinute},
      {{.mtbf_s = 3.1 * kHour, .checkpoint_s = 34, .restart_s = 200}, 28 * kMinute},
      {{.mtbf_s = 600, .checkpoint_s = 60, .restart_s = 900}, 300},  // Restarts fail, too.
      {{.mtbf_s = 1e7, .checkpoint_s = 20, .restart_s = 600}, 20000},
  };
  constexpr int kSegments = 200'000;
  std::uint64_t seed = 20261123;
  for (const Setting& setting : settings) {
    const SimulatedTraining seen = simulate_training(setting.model, setting.interval_s, kSegments,
                                                     RandomStream(seed++, "failures"));
    INFO("M = " << setting.model.mtbf_s << " s, " << seen.failures << " failures");
    const double expected_s = expected_segment_s(setting.model, setting.interval_s);
    const double error_s = 4.0 * seen.standard_error_s;
    // The simulation would tell a form that is off by 2 %.
    CHECK(error_s < 0.02 * expected_s);
    CHECK(std::fabs(seen.mean_segment_s - expected_s) < error_s);
    const TimeShares shares = time_shares(setting.model, setting.interval_s);
    const double relative = error_s / expected_s;
    CHECK(std::fabs(seen.shares.useful - shares.useful) < relative * shares.useful);
    CHECK(std::fabs(seen.shares.checkpoint - shares.checkpoint) < relative * shares.checkpoint);
    // The time that failures take varies as the whole does.
    CHECK(std::fabs(seen.shares.rework - shares.rework) < relative);
    CHECK(std::fabs(seen.shares.restart - shares.restart) < relative);
  }
}

}  // namespace shardsim::test
