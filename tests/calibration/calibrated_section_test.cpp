#include <cmath>
#include <sstream>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/calibration/calibrate_fixture.hpp"

// Values that a system already has under system.nccl: the start of a fit, and the values that its
// output keeps.
namespace shardsim::test {
namespace {

using nlohmann::json;

constexpr const char* kFactor = "system.nccl.inter_node.bandwidth_factor=0.8";

json section_written_by(const TemporaryFolder& folder, const Words& words) {
  constexpr bool kComments = true;
  return json::parse(overlay_text_of(folder, words), nullptr, true, kComments);
}

// A number of a tier, with or without its origin.
double number(const json& tier, const char* key) {
  const json& found = tier.at(key);
  return found.is_object() ? found.at("value").get<double>() : found.get<double>();
}

// Times are printed to 1 in 20,000 where bytes dominate and to 0.005 us where latency does, and
// corrections with four digits behind the point and two.
bool is_factor(double found, double truth) { return std::abs(found / truth - 1) <= 1e-4 + 5e-5; }
bool is_latency(double found, double truth) { return std::abs(found - truth) <= 0.011; }

// The line of "before", "after" and "held out" of the only table.
std::vector<double> errors_of(const Words& words) {
  const Printed printed = shardsim(Words{"calibrate"} + words);
  REQUIRE(printed.exit_code == 0);
  const std::string row = "    all_reduce, 16 ranks on 2 nodes";
  const std::size_t at = printed.out.find(row);
  REQUIRE(at != std::string::npos);
  std::istringstream numbers(printed.out.substr(at + row.size()));
  std::vector<double> errors(3);
  for (double& error : errors) numbers >> error;
  return errors;
}

}  // namespace

TEST_CASE("a part that is not fitted is that of the system") {
  const TemporaryFolder folder;
  const Words factor = {"--set", kFactor};
  const Words latency = {"--set", "system.nccl.inter_node.added_latency_us=7.25"};
  write(folder / "table", simulated("all_reduce", 16, factor + latency));
  SECTION("the bandwidth, with where it comes from") {
    const Words words = Words{folder / "table", "--fit", "latency"} + factor;
    const json found = section_written_by(folder, words).at("inter_node");
    CHECK(found.at("bandwidth_factor") == json{{"value", 0.8}, {"source", "given by --set"}});
    CHECK(is_latency(number(found, "added_latency_us"), 7.25));
    CHECK(found.at("source") == "shardsim calibrate: all_reduce of 16 ranks on 2 nodes (table)");
    const Printed printed = shardsim(Words{"calibrate"} + words);
    CHECK(contains(printed.out, fmt::format("  {:<44}  {:>9}  {:>9}\n", "as the system has it",
                                            "0.8000", "+0.00")));
    CHECK(contains(printed.out, "--set system.nccl.inter_node.bandwidth_factor=0.8"));
  }
  SECTION("the latency, though it is not one of two digits") {
    const Words given = {"--set", "system.nccl.inter_node.added_latency_us=7.2512345"};
    const json found =
        section_written_by(folder, Words{folder / "table", "--fit", "bandwidth"} + given);
    CHECK(number(found.at("inter_node"), "added_latency_us") == 7.2512345);
    CHECK(is_factor(number(found.at("inter_node"), "bandwidth_factor"), 0.8));
  }
  SECTION("nothing is written of what the system does not say") {
    const json found = section_written_by(folder, {folder / "table", "--fit", "latency"});
    CHECK_FALSE(found.at("inter_node").contains("bandwidth_factor"));
  }
  SECTION("two steps give what one gives, by pasting the first") {
    const json first = section_written_by(folder, {folder / "table", "--fit", "bandwidth"});
    const json second =
        section_written_by(folder, Words{folder / "table", "--fit", "latency", "--set"} +
                                       Words{"system.nccl=" + content_of(folder / "overlay.json")});
    CHECK(number(second.at("inter_node"), "bandwidth_factor") ==
          first.at("inter_node").at("bandwidth_factor"));
    CHECK(second.at("inter_node").at("bandwidth_factor").at("source") ==
          "shardsim calibrate: all_reduce of 16 ranks on 2 nodes (table)");
  }
}

TEST_CASE("errors before are those of the system as given") {
  const TemporaryFolder folder;
  const Words truth = {"--set", kFactor, "--set", "system.nccl.inter_node.added_latency_us=7.25"};
  write(folder / "table", simulated("all_reduce", 16, truth));
  CHECK(errors_of({folder / "table"}).front() > 10);
  CHECK(errors_of(Words{folder / "table"} + truth).front() == 0);
  for (const char* part : {"bandwidth", "latency"}) {
    const std::vector<double> errors = errors_of(Words{folder / "table", "--fit", part} + truth);
    CHECK(errors == std::vector<double>{0, 0, 0});
  }
}

TEST_CASE("what is written has the other tier, algorithms and protocols of the system") {
  const TemporaryFolder folder;
  write(folder / "mine.json", R"({
    "schema_version": 1, "name": "mine",
    "model": {"family": "mlp", "num_layers": 1, "hidden_size": 8, "ffn_hidden_size": 8,
              "vocab_size": 8},
    "system": {"preset": "dgx-h100", "nodes": 2, "nccl": {
      "algorithms": "ring", "protocols": "^ll128", "source": "the lab",
      "intra_node": {"bandwidth_factor": 0.9, "added_latency_us": {"value": 2, "source": "a \"q\""}},
      "inter_node": {"bandwidth_factor": 0.5, "added_latency_us": 9}}},
    "training": {"global_batch_size": 1024, "micro_batch_size": 1}})");
  const Words mine = {"--system", folder / "mine.json"};
  write(folder / "table", simulated("all_reduce", 16, mine + Words{"--set", kFactor}));
  const json found = section_written_by(folder, Words{folder / "table"} + mine);
  CHECK(found.size() == 4);
  CHECK(found.at("algorithms") == "ring");
  CHECK(found.at("protocols") == "^ll128");
  CHECK(found.at("intra_node") ==
        json{{"bandwidth_factor", {{"value", 0.9}, {"source", "the lab"}}},
             {"added_latency_us", {{"value", 2}, {"source", "a \"q\""}}}});
  CHECK(is_factor(number(found.at("inter_node"), "bandwidth_factor"), 0.8));
  CHECK(is_latency(number(found.at("inter_node"), "added_latency_us"), 9));
  CHECK(found.at("inter_node").at("bandwidth_factor").is_number());
  // Put where system.nccl was, it loses nothing: written again it is the same.
  const Words pasted = mine + Words{"--set", "system.nccl=" + content_of(folder / "overlay.json")};
  json again = section_written_by(folder, Words{folder / "table"} + pasted);
  CHECK(again == found);
  const Printed flags = shardsim(Words{"calibrate", folder / "table"} + mine);
  for (const char* flag :
       {"--set \"system.nccl.algorithms=ring\"", "--set \"system.nccl.protocols=^ll128\"",
        "--set system.nccl.intra_node.bandwidth_factor=0.9",
        "--set system.nccl.intra_node.added_latency_us=2"}) {
    CHECK(contains(flags.out, flag));
  }
}

}  // namespace shardsim::test
