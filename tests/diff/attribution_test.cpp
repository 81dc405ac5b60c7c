#include <algorithm>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "reports/json_writer.hpp"
#include "scenarios/load.hpp"
#include "sim/diff/comparison.hpp"
#include "sim/diff/run_side.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/diff/diff_fixture.hpp"

// Rows of a comparison add up to its totals, whatever is compared.
namespace shardsim::test {

namespace {

RunSide run(const std::string& scenario, const std::vector<std::string>& overrides = {}) {
  return read_side({.path = scenario, .overrides = overrides}, {});
}

void check_sums(const DiffTable& table) {
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t difference = 0;
  for (const DiffRow& row : table.rows) {
    a += row.a;
    b += row.b;
    difference += row.difference();
  }
  CHECK(a == table.total.a);
  CHECK(b == table.total.b);
  CHECK(difference == table.total.difference());
}

std::vector<std::string> names_in(const DiffTable& table) {
  std::vector<std::string> names;
  for (const DiffRow& row : table.rows) names.push_back(row.name);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("parts add up exactly, for pipelines, experts, offload and more", "[diff]") {
  const std::pair<const char*, const char*> kPairs[] = {
      {"scenarios/quickstart.json", "scenarios/verify-gpt-ddp.json"},
      {"scenarios/verify-gpt-pp4-1f1b.json", "scenarios/verify-gpt-pp4-gpipe.json"},
      {"scenarios/verify-llama-ep2-pp2-dp2.json", "scenarios/verify-llama-tp2-pp2-dp2-sp.json"},
      {"scenarios/verify-gpt-zero2-offload.json", "scenarios/verify-gpt-zero2.json"},
      {"scenarios/verify-llama-cp2-ring.json", "scenarios/verify-llama-cp2-ulysses.json"}};
  for (const auto& [a, b] : kPairs) {
    INFO(a << " " << b);
    const RunComparison comparison = compare(run(a, {"execution.tensors=meta"}), run(b));
    check_sums(comparison.time);
    REQUIRE(comparison.memory.has_value());
    check_sums(*comparison.memory);
    // The simulator's own split leaves nothing over.
    const Names names = names_in(comparison.time);
    CHECK(std::count(names.begin(), names.end(), "other") == 0);
  }
}

TEST_CASE("what no part explains is a row of its own", "[diff]") {
  const RunComparison comparison =
      compare(made_side(100, {{"compute", 60}, {"bubble", 30}}), made_side(90, {{"compute", 70}}));
  CHECK(names_in(comparison.time) == Names{"compute", "bubble", "other"});
  CHECK(comparison.time.rows[2].a == 10);
  CHECK(comparison.time.rows[2].b == 20);
  check_sums(comparison.time);
}

TEST_CASE("sides are compared as coarsely as the coarser one tells", "[diff]") {
  const RunSide fine =
      made_side(100, {{"compute", 50}, {"exposed comm", 20}, {"bubble", 25}, {"host", 5}});
  RunSide trace =
      made_side(120, {{"compute", 55}, {"exposed comm", 30}, {"copies", 5}, {"idle", 30}});
  trace.kind = SideKind::profiler_trace;
  const RunComparison with_trace = compare(fine, trace);
  CHECK(names_in(with_trace.time) == Names{"compute", "exposed comm", "idle", "copies"});
  CHECK(with_trace.time.rows[2].a == 30);
  check_sums(with_trace.time);
  RunSide log = made_side(130, {});
  log.kind = SideKind::megatron_log;
  const RunComparison with_log = compare(fine, log);
  CHECK(names_in(with_log.time) == Names{"not told apart"});
  check_sums(with_log.time);
  CHECK(main_reason(with_log.time)->name == "not told apart");
}

TEST_CASE("waiting is told by axis where both runs tell it", "[diff]") {
  RunSide a = made_side(100 * 1'000'000, {{"compute", 50'000'000}, {"exposed comm", 50'000'000}});
  RunSide b = made_side(70 * 1'000'000, {{"compute", 50'000'000}, {"exposed comm", 20'000'000}});
  add_axes(a, {{.axis = "tp", .exposed_s = 30e-6}, {.axis = "dp", .exposed_s = 20e-6}});
  CHECK(names_in(compare(a, b).time) == Names{"compute", "exposed comm"});
  add_axes(b, {{.axis = "dp", .exposed_s = 20e-6}, {.axis = "tp", .exposed_s = 0.0}});
  const RunComparison comparison = compare(a, b);
  CHECK(names_in(comparison.time) == Names{"compute", "exposed tp", "exposed dp"});
  check_sums(comparison.time);
  CHECK(main_reason(comparison.time)->name == "exposed tp");
}

TEST_CASE("the reason is the largest part that goes the way of the whole", "[diff]") {
  const DiffTable table{{"step time", 100, 90},
                        {{"compute", 50, 70}, {"bubble", 30, 5}, {"host", 20, 15}}};
  CHECK(main_reason(table)->name == "bubble");
  CHECK(main_reason({{"step time", 90, 90}, {{"compute", 50, 60}, {"host", 40, 30}}}) == nullptr);
}

TEST_CASE("fields, assumptions and traffic that differ are found", "[diff]") {
  const RunComparison comparison = compare(run(kPlan), run(kPlan, {"parallelism.zero_stage=1"}));
  const auto changed = [&](const std::string& path) {
    return std::find_if(comparison.fields.begin(), comparison.fields.end(),
                        [&](const FieldChange& change) { return change.path == path; });
  };
  REQUIRE(changed("parallelism.zero_stage") != comparison.fields.end());
  CHECK(changed("parallelism.zero_stage")->a == "3");
  CHECK(changed("parallelism.zero_stage")->b == "1");
  CHECK(changed("model.hidden_size") == comparison.fields.end());
  REQUIRE(comparison.traffic.size() == 1);
  CHECK(comparison.traffic[0].name == "dp");
  CHECK(comparison.traffic[0].a > comparison.traffic[0].b);
  const RunComparison same = compare(run(kPlan), run(kPlan));
  CHECK(same.fields.empty());
  CHECK(same.only_in_a.empty());
  CHECK(same.only_in_b.empty());
  const RunComparison other =
      compare(run(kPlan), run(kPlan, {"system.intra_node.bandwidth_gb_per_s=300"}));
  const std::vector<std::string>& only = other.only_in_b;
  CHECK(std::any_of(only.begin(), only.end(), [](const std::string& text) {
    return contains(text, "system.intra_node.bandwidth_gb_per_s") &&
           contains(text, "given by --set");
  }));
}

TEST_CASE("bands say whether a difference can be seen", "[diff]") {
  RunSide a = made_side(100'000'000'000, {});
  RunSide b = made_side(110'000'000'000, {});
  CHECK(compare(a, b).verdict == BandVerdict::no_band);
  a.band = {0.08, 0.12};
  CHECK(compare(a, b).verdict == BandVerdict::no_band);
  b.band = {0.09, 0.13};
  CHECK(compare(a, b).verdict == BandVerdict::within_band);
  b.band = {0.105, 0.13};
  CHECK(compare(a, b).verdict == BandVerdict::distinguishable);
  b.band.reset();
  b.kind = SideKind::megatron_log;
  CHECK(compare(a, b).verdict == BandVerdict::unlike);  // Whatever ran there.
  a.fields = {{"model.num_layers", "2"}, {"model.hidden_size", "64"}, {"system.ranks", "8"}};
  b.fields = a.fields;
  CHECK(compare(a, b).verdict == BandVerdict::within_band);
  CHECK(compare(b, a).verdict == BandVerdict::within_band);
  a.band = {0.08, 0.105};
  CHECK(compare(a, b).verdict == BandVerdict::distinguishable);
}

TEST_CASE("a result file and its scenario are the same run", "[diff]") {
  const std::string json = to_json(run_scenario(load_scenario(kPlan)).result);
  const RunComparison comparison = compare(side_of_result(json, "result.json", false), run(kPlan));
  CHECK(comparison.time.total.difference() == 0);
  CHECK(comparison.fields.empty());
  for (const DiffRow& row : comparison.time.rows) CHECK(row.difference() == 0);
}

TEST_CASE("of a run on processes the measured numbers are taken where that is asked", "[diff]") {
  nlohmann::json result = nlohmann::json::parse(to_json(run_scenario(load_scenario(kPlan)).result));
  result["measured"] = {{"step_time_s", 0.25}};
  CHECK(side_of_result(result.dump(), "f", true).step_ps == 250'000'000'000);
  CHECK(side_of_result(result.dump(), "f", true).kind == SideKind::measured_result);
  CHECK(side_of_result(result.dump(), "f", false).kind == SideKind::simulated);
  result.erase("measured");
  CHECK(side_of_result(result.dump(), "f", true).kind == SideKind::simulated);
}

}  // namespace shardsim::test
