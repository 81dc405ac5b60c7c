#include <cstdio>
#include <optional>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <rapidcheck.h>

#include "sim/kernel/error.hpp"

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/edge/edge_scenario.hpp"
#include "tests/property/check_property.hpp"

// The hardware executes at least the model's work, and never more than it can.
namespace shardsim::test {

namespace {

// Empty unless the scenario runs to its end and fits its devices.
std::optional<Result> finished_run(const std::string& text) {
  std::optional<Result> result;
  try {
    result = run_scenario(load_scenario_text(text, "edge.json", {}, kSmall)).result;
  } catch (const ScenarioError&) {
    return std::nullopt;
  } catch (const Error& error) {
    if (error.exit_code() != ExitCode::does_not_fit) throw;
    return std::nullopt;
  }
  const bool finished = result->exit_code == static_cast<int>(ExitCode::ok) ||
                        result->exit_code == static_cast<int>(ExitCode::check_failed);
  return finished ? result : std::nullopt;
}

}  // namespace

TEST_CASE("drawn runs use no more of the model's flops than of the hardware's, and those exist") {
  int runs = 0;
  check_property(150, [&] {
    const std::string text = draw_edge_scenario().text();
    const std::optional<Result> result = finished_run(text);
    if (!result) RC_DISCARD("it does not run");
    ++runs;
    const double mfu = result->number("mfu").value();
    const double hfu = result->number("hfu").value();
    if (0 <= mfu && mfu <= hfu && hfu <= 1) return;
    RC_FAIL(fmt::format("mfu {:.17g}, hfu {:.17g}\n{}", mfu, hfu, text));
  });
  std::printf("figures: MFU and HFU of %d runs\n", runs);
  CHECK(runs >= 150);
}

}  // namespace shardsim::test
