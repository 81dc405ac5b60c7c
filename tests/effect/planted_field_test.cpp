#include <algorithm>

#include <catch2/catch.hpp>

#include "scenarios/field.hpp"
#include "sim/experiment/assumptions.hpp"

#include "tests/effect/probe.hpp"

// Plants a field that nobody reads, and a minimum that hides one. The judge of the other test must
// accept them with the mechanism, and find them without it.
namespace shardsim::test {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kWide = "system.inter_node.bandwidth_gb_per_s";
constexpr const char* kNarrow = "system.pcie_gb_per_s";

// A machine with two limits. `how` prices a step by them.
Probe priced(double wide, double narrow,
             double (*how)(const Tracked<double>&, const Tracked<double>&)) {
  Scenario scenario;
  scenario.system.network.model = "nccl";
  scenario.system.nodes = 2;
  scenario.chosen = {kWide};
  Tracked<double> limit = wide;
  limit.set_mark(mark_of(*find_field(kWide)));
  Tracked<double> other = narrow;
  other.set_mark(mark_of(*find_field(kNarrow)));
  Result result;
  result.scenario_json = "{}";
  ReadLog reads;
  {
    const ReadLog::Scope noted(&reads);
    result.metrics.push_back({"step_time_s", how(limit, other)});
  }
  result.warnings = fields_without_effect(scenario, reads);
  return probe_of(result);
}

Hearing heard(double before, double after,
              double (*how)(const Tracked<double>&, const Tracked<double>&)) {
  return hearing_of(kWide, priced(before, 48, how), priced(after, 48, how));
}

}  // namespace

TEST_CASE("a planted field that nobody reads is named") {
  CHECK(heard(100, 200, [](const Tracked<double>&, const Tracked<double>& other) {
          return 1 / other;
        }) == Hearing::named);
}

TEST_CASE("a planted field that is copied past the mechanism and dropped is silent") {
  CHECK(heard(100, 200, [](const Tracked<double>& limit, const Tracked<double>& other) {
          const double copied = limit;
          return copied > 0 ? 1 / other : 0;
        }) == Hearing::silent);
}

TEST_CASE("a planted minimum that swallows a field without saying so is silent") {
  CHECK(heard(100, 200, [](const Tracked<double>& limit, const Tracked<double>& other) {
          return 1 / std::min<double>(limit, other);
        }) == Hearing::silent);
}

TEST_CASE("a minimum that reports names the loser with the winner, and only then") {
  const auto smaller = [](const Tracked<double>& limit, const Tracked<double>& other) {
    return 1 / smaller_of(limit, other);
  };
  CHECK(heard(100, 200, smaller) == Hearing::named);
  CHECK(heard(20, 40, smaller) == Hearing::acts);
  CHECK(heard(200, 40, smaller) == Hearing::acts);
}

TEST_CASE("a field that is said to have no effect and has one is found") {
  CHECK(heard(100, 200, [](const Tracked<double>& limit, const Tracked<double>&) {
          return limit.peek();  // Bypasses the mechanism.
        }) == Hearing::slandered);
}

TEST_CASE("a planted field that each run names, and that acts nowhere, is complained of") {
  const auto nobody_reads = [](const Tracked<double>&, const Tracked<double>& other) {
    return 1 / other;
  };
  const auto smaller = [](const Tracked<double>& limit, const Tracked<double>& other) {
    return 1 / smaller_of(limit, other);
  };
  const std::string lost = std::string(kWide) + " acts nowhere: give it a home";
  CHECK(complaints({kWide}, {{kWide, "a", heard(100, 200, nobody_reads)}}) == Words{lost});
  // A minimum that swallows the field in one machine, and in another.
  const Heard swallowed = {kWide, "a", heard(100, 200, smaller)};
  CHECK(complaints({kWide}, {swallowed, swallowed}) == Words{lost});
  CHECK(complaints({kWide}, {swallowed, {kWide, "b", heard(20, 40, smaller)}}).empty());
  CHECK(complaints({}, {swallowed}).empty());
  CHECK(complaints({kWide}, {{kWide, "a", std::nullopt}}) == Words{lost});
}

TEST_CASE("a planted field that is silent or slandered in one scenario is complained of") {
  const Hearing silent = heard(100, 200, [](const Tracked<double>& limit, const auto& other) {
    return 1 / std::min<double>(limit, other);
  });
  const Hearing slandered =
      heard(100, 200, [](const Tracked<double>& limit, const auto&) { return limit.peek(); });
  const Heard acts = {kWide, "a", Hearing::acts};
  const std::string start = std::string("b: ") + kWide;
  CHECK(complaints({kWide}, {acts, {kWide, "b", silent}}) ==
        Words{start + " changes nothing, and nobody says so"});
  CHECK(complaints({kWide}, {acts, {kWide, "b", slandered}}) ==
        Words{start + " changes the result, and is said to have no effect"});
  CHECK(complaints({kWide}, {acts, {kWide, "b", Hearing::refused, false, "no"}}) ==
        Words{start + " is accepted and then refused: no"});
}

TEST_CASE("a planted field that does not act at home is complained of") {
  const Heard acts = {kWide, "a", Hearing::acts};
  const Words wrong = {std::string("b: ") + kWide + " does not act at home"};
  CHECK(complaints({kWide}, {acts, {kWide, "b", Hearing::named, true}}) == wrong);
  CHECK(complaints({kWide}, {acts, {kWide, "b", std::nullopt, true}}) == wrong);
  CHECK(complaints({kWide}, {{kWide, "b", Hearing::acts, true}}).empty());
}

}  // namespace shardsim::test
