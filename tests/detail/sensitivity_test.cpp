#include "sim/run/sensitivity/sensitivity.hpp"

#include <cmath>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "reports/pages.hpp"
#include "scenarios/load.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/detail/detail_of.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/detail/detail_fixture.hpp"

// `shardsim sensitivity`: a bar is the difference of two ordinary runs.
namespace shardsim::test {

namespace {

using Json = nlohmann::json;

Json json_of(const std::vector<std::string>& words) {
  const Printed printed = shardsim(words);
  INFO(printed.out << printed.err);
  REQUIRE(printed.exit_code == 0);
  return Json::parse(printed.out);
}

/// A scenario and what its command line adds to it.
struct Asked {
  std::string name;
  std::string file;
  std::vector<std::string> overrides;

  [[nodiscard]] std::vector<std::string> words(const std::string& verb) const {
    std::vector<std::string> words = {verb, file, "--json"};
    for (const std::string& override : overrides) words.insert(words.end(), {"--set", override});
    return words;
  }
};

const std::vector<Asked>& asked() {
  static const std::vector<Asked> all = {
      {"sharded", "scenarios/quickstart.json", {}},
      {"pipeline", "scenarios/gpt3-175b-1024xa100.json", {"execution.fold=require"}},
      {"interleaved, one node, roofline",
       "scenarios/verify-llama-pp2-interleaved.json",
       {"execution.tensors=meta", "system.device.memory_gib=80"}}};
  return all;
}

}  // namespace

TEST_CASE("each bar equals two ordinary runs with the same --set", "[sensitivity]") {
  for (const Asked& each : asked()) {
    INFO(each.name);
    const Json bars = json_of(each.words("sensitivity"));
    const Json base = json_of(each.words("run"))["metrics"];
    CHECK(bars["step_time_s"] == base["step_time_s"]);
    CHECK(bars["bars"].size() >= 6);
    for (const Json& bar : bars["bars"]) {
      INFO(bar.dump());
      REQUIRE(bar.contains("step_time_s"));
      std::vector<std::string> words = each.words("run");
      for (const Json& override : bar["set"]) words.insert(words.end(), {"--set", override});
      const Json run = json_of(words)["metrics"];
      CHECK(bar["step_time_s"] == run["step_time_s"]);
      CHECK(bar["tokens_per_s"] == run["tokens_per_s"]);
      const double change =
          base["tokens_per_s"].get<double>() / run["tokens_per_s"].get<double>() - 1.0;
      CHECK(bar["time_per_token_change"].get<double>() == change);
    }
  }
}

TEST_CASE("each quantity is changed by as much as was asked", "[sensitivity]") {
  const Experiment compiled = compile(load_scenario("scenarios/quickstart.json"));
  const Scenario& scenario = compiled.scenario();
  std::set<std::string> quantities;
  for (const SensitivityVariant& variant : sensitivity_variants(compiled, 0.25)) {
    INFO(variant.quantity << " " << variant.by);
    quantities.insert(variant.quantity);
    if (variant.quantity != "batch") CHECK(std::abs(variant.by) == 0.25);
    const Scenario changed = load_scenario("scenarios/quickstart.json", variant.overrides);
    const SystemSpec& a = scenario.system;
    const SystemSpec& b = changed.system;
    const auto is_changed = [&](const char* quantity, double from, double to) {
      const double factor = variant.quantity == quantity ? 1.0 + variant.by : 1.0;
      CHECK(to == Approx(from * factor).epsilon(1e-9));
    };
    is_changed("computing", a.device.peak_tflops.bf16.peek(), b.device.peak_tflops.bf16.peek());
    is_changed("memory bandwidth", a.device.memory_bandwidth_gb_per_s.peek(),
               b.device.memory_bandwidth_gb_per_s.peek());
    is_changed("links inside a node", a.intra_node.bandwidth_gb_per_s.peek(),
               b.intra_node.bandwidth_gb_per_s.peek());
    is_changed("links between nodes", a.inter_node.bandwidth_gb_per_s.peek(),
               b.inter_node.bandwidth_gb_per_s.peek());
    is_changed("batch", static_cast<double>(scenario.training.global_batch_size),
               static_cast<double>(changed.training.global_batch_size));
  }
  CHECK(quantities.size() == 5);
}

TEST_CASE("a machine without other nodes has no bar for the links between them", "[sensitivity]") {
  const Experiment compiled =
      compile(load_scenario("scenarios/quickstart.json", {"system.nodes=1"}));
  for (const SensitivityVariant& variant : sensitivity_variants(compiled, 0.1)) {
    CHECK(variant.quantity != "links between nodes");
  }
}

TEST_CASE("a variant that cannot run has a reason and no numbers", "[sensitivity]") {
  const DetailedRun run = detailed("scenarios/quickstart.json", {"system.nodes=1"});
  const auto load = [](const std::vector<std::string>& overrides) {
    std::vector<std::string> all = {"system.nodes=1"};
    // This batch is no multiple of what a microbatch of all ranks has.
    all.emplace_back(overrides.front().starts_with("training") ? "training.global_batch_size=7"
                                                               : overrides.front());
    return load_scenario("scenarios/quickstart.json", all);
  };
  std::size_t without = 0;
  for (const SensitivityBar& bar :
       sensitivity_of(compile(run.scenario), run.result, 0.1, load, {})) {
    INFO(bar.quantity << ": " << bar.note);
    CHECK((bar.quantity == "batch") == (bar.step_s == 0));
    if (bar.step_s > 0) continue;
    ++without;
    CHECK_FALSE(bar.note.empty());
  }
  CHECK(without == 2);
}

TEST_CASE("the table fits 100 columns and says what has no effect", "[sensitivity]") {
  const Printed printed = shardsim({"sensitivity", "scenarios/quickstart.json"});
  CHECK(printed.exit_code == 0);
  std::istringstream lines(printed.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
  CHECK(contains(printed.out, "computing               -10.0 %"));
  CHECK(contains(printed.out, "system.inter_node.bandwidth_gb_per_s has no effect here"));
  CHECK_FALSE(contains(printed.out, "peak_tflops.fp64 has no effect"));
}

TEST_CASE("the page has the bars only if they were asked for", "[sensitivity]") {
  const DetailedRun run = detailed("scenarios/quickstart.json", {"system.nodes=1"});
  const TextHeadline headline = headline_of(compile(run.scenario));
  RunDetail detail = run.detail;
  CHECK_FALSE(contains(to_html(run.result, headline, detail), "What the step depends on"));
  detail.sensitivity = {
      {"computing", -0.1, "890 TFLOP/s in bf16", {"a.b=1"}, 2.0, 100, 0.1, ""},
      {"computing", 0.1, "1,090 TFLOP/s in bf16", {"a.b=2"}, 1.8, 110, -0.05, ""}};
  const std::string html = to_html(run.result, headline, detail);
  CHECK(contains(html, "<section id=\"sensitivity\""));
  CHECK(contains(html, "computing</span><span class=\"amount\">+10.0 % / -5.0 %"));
  // Half of the chart is for each direction: the longest bar has 1 / 1.05 of it.
  CHECK(contains(html, "left:50.000%;width:47.619%;background:var(--time-1)"));
  CHECK(contains(html, "left:26.190%;width:23.810%;background:var(--time-0)"));
}

}  // namespace shardsim::test
