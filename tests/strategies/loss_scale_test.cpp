#include "strategies/training/loss_scale.hpp"

#include <limits>
#include <string>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

namespace shardsim::test {

namespace {

LossScaling dynamic_rule() {
  return {.mode = LossScaling::Mode::dynamic,
          .initial_scale = 1024.0,
          .growth_interval = 3,
          .hysteresis = 2};
}

// A letter per step: 'o' for an overflow, '.' for a good one.
LossScaleState after(const LossScaling& rule, const std::string& steps) {
  LossScaleState state = initial_state(rule);
  for (const char step : steps) state = next_state(rule, state, step == 'o');
  return state;
}

std::string refusal(const LossScaling& rule) {
  try {
    validate(rule);
  } catch (const UsageError& error) {
    return error.code();
  }
  return "none";
}

}  // namespace

TEST_CASE("no loss scaling is a scale of 1, whatever happens") {
  const LossScaling none;
  CHECK(initial_state(none) == LossScaleState{1.0, 0, 0});
  CHECK(after(none, "o.o.o") == initial_state(none));
}

TEST_CASE("a static scale stays, with and without overflows") {
  LossScaling rule = dynamic_rule();
  rule.mode = LossScaling::Mode::constant;
  CHECK(initial_state(rule).scale == 1024.0);
  CHECK(after(rule, "oooo......") == initial_state(rule));
}

TEST_CASE("a dynamic scale doubles after as many good steps in a row as its growth interval") {
  const LossScaling rule = dynamic_rule();
  CHECK(after(rule, "..").scale == 1024.0);
  CHECK(after(rule, "...") == LossScaleState{2048.0, 0, 2});
  CHECK(after(rule, ".....").scale == 2048.0);
  CHECK(after(rule, "......").scale == 4096.0);
  // An overflow begins the row anew.
  CHECK(after(rule, "..o..") == LossScaleState{1024.0, 2, 1});
  CHECK(after(rule, "..o...") == LossScaleState{2048.0, 0, 2});
}

// Source: Megatron-LM, DynamicGradScaler.update: the tracker is set back by growth alone.
TEST_CASE("a dynamic scale halves with the last overflow of its hysteresis and each after it") {
  const LossScaling rule = dynamic_rule();
  CHECK(after(rule, "o") == LossScaleState{1024.0, 0, 1});
  CHECK(after(rule, "oo") == LossScaleState{512.0, 0, 0});
  CHECK(after(rule, "ooo").scale == 256.0);
  // Good steps between them do not make it patient again, growing does.
  CHECK(after(rule, "o..o").scale == 512.0);
  CHECK(after(rule, "oo..o").scale == 256.0);
  CHECK(after(rule, "o...o").scale == 2048.0);
  CHECK(after(rule, "o...oo").scale == 1024.0);
  LossScaling impatient = rule;
  impatient.hysteresis = 1;
  CHECK(after(impatient, "o").scale == 512.0);
  CHECK(after(impatient, "...o").scale == 1024.0);
}

TEST_CASE("a dynamic scale neither falls below its minimum nor leaves fp32") {
  LossScaling rule = dynamic_rule();
  rule.hysteresis = 1;
  rule.minimum_scale = 300.0;
  CHECK(after(rule, "o").scale == 512.0);
  CHECK(after(rule, "oo").scale == 300.0);
  CHECK(after(rule, "oooooo").scale == 300.0);
  rule.initial_scale = 0x1p127;
  rule.growth_interval = 1;
  CHECK(after(rule, "...").scale == 0x1p127);  // 2^128 is infinite in fp32.
  CHECK(after(rule, "...o").scale == 0x1p126);
  rule.initial_scale = 0x1p126;
  CHECK(after(rule, "...").scale == 0x1p127);
}

TEST_CASE("growth and backoff factors are those of the rule") {
  LossScaling rule = dynamic_rule();
  rule.growth_factor = 3.0;
  rule.backoff_factor = 0.25;
  CHECK(after(rule, "...").scale == 3072.0);
  CHECK(after(rule, "oo").scale == 256.0);
}

TEST_CASE("numbers that cannot be a rule are refused") {
  CHECK(refusal({}) == "none");
  CHECK(refusal(dynamic_rule()) == "none");
  const auto changed = [](auto member, auto value) {
    LossScaling rule = dynamic_rule();
    rule.*member = value;
    return refusal(rule);
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double scale : {0.0, -1.0, 1e39, kInfinity, kNan}) {
    CHECK(changed(&LossScaling::initial_scale, scale) == "E0786");
    CHECK(changed(&LossScaling::minimum_scale, scale) == "E0786");
  }
  CHECK(changed(&LossScaling::minimum_scale, 2048.0) == "E0786");
  for (const double factor : {0.5, kInfinity, kNan}) {
    CHECK(changed(&LossScaling::growth_factor, factor) == "E0786");
  }
  for (const double factor : {0.0, -0.5, 2.0, kNan}) {
    CHECK(changed(&LossScaling::backoff_factor, factor) == "E0786");
  }
  CHECK(changed(&LossScaling::growth_interval, std::int64_t{0}) == "E0786");
  CHECK(changed(&LossScaling::hysteresis, std::int64_t{0}) == "E0786");
}

}  // namespace shardsim::test
