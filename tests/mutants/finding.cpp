#include "tests/mutants/finding.hpp"

#include <algorithm>
#include <regex>
#include <stdexcept>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/experiment/experiment.hpp"

#include "tests/mutants/score.hpp"

namespace shardsim::test {

namespace {

Names operator+(Names a, const Names& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The oracle's sentence, taken apart.
Finding parse(const std::string& detail) {
  static const std::regex kSentence(
      R"(step (\d+), rank (\d+): (\w+) of (\S+) \(elements \d+ to \d+\) is (\S+) times that of .*)");
  static const std::regex kNorm(
      R"(step (\d+), rank (\d+): norm of all gradients is (\S+) times that of .*)");
  static const std::regex kLoss(R"(step (\d+), rank (\d+): loss \S+, .* has \S+ \(factor (\S+)\))");
  std::smatch match;
  INFO(detail);
  if (std::regex_match(detail, match, kLoss)) {
    return {std::stoi(match[1]), std::stoi(match[2]), "loss", "", std::stod(match[3])};
  }
  if (std::regex_match(detail, match, kNorm)) {
    return {std::stoi(match[1]), std::stoi(match[2]), "norm", "", std::stod(match[3])};
  }
  REQUIRE(std::regex_match(detail, match, kSentence));
  return {std::stoi(match[1]), std::stoi(match[2]), match[3], match[4], std::stod(match[5])};
}

const Check& oracle_of(const Result& result) {
  for (const Check& check : result.checks) {
    if (check.name == "oracle") return check;
  }
  throw std::logic_error("the run has no oracle");
}

}  // namespace

const Names kDdp = {"gpt-ddp", "llama-ddp", "mlp-ddp"};
const Names kZero12 = {"gpt-zero1", "gpt-zero2", "llama-zero1", "llama-zero2"};
const Names kHsdp = {"gpt-hsdp", "llama-hsdp"};
const Names kFullySharded = Names{"gpt-zero3", "llama-zero3"} + kHsdp;
const Names kSharded = kZero12 + kFullySharded;
const Names kAll = kDdp + kSharded;

Scenario scenario_of(const std::string& name, int steps, const std::vector<std::string>& changes) {
  std::vector<std::string> overrides = {"execution.steps=" + std::to_string(steps)};
  overrides.insert(overrides.end(), changes.begin(), changes.end());
  return load_scenario("scenarios/verify-" + name + ".json", overrides);
}

Finding found_in(const Scenario& scenario, const Result& result) {
  INFO(scenario.name);
  count_mutant(Detector::oracle, finder_in(result));
  if (result.diagnosis) FAIL(result.diagnosis->to_text());
  REQUIRE(result.exit_code == 1);
  REQUIRE(result.number("oracle.passed") == 0.0);
  REQUIRE_FALSE(oracle_of(result).passed);
  Finding finding = parse(oracle_of(result).detail);
  const Experiment experiment = compile(scenario);
  const auto& parameters = experiment.plan().whole().parameters();
  CHECK((finding.kind == "norm" || finding.kind == "loss" ||
         std::any_of(parameters.begin(), parameters.end(),
                     [&](const ParameterSpec& spec) { return spec.name == finding.tensor; })));
  CHECK(finding.rank < scenario.system.ranks);
  return finding;
}

Finding found(const Scenario& scenario, const Faults& faults) {
  return found_in(scenario, run_scenario(scenario, {.wrap_world = plant(faults)}).result);
}

Finding found(const std::string& name, const Faults& faults) {
  return found(scenario_of(name), faults);
}

}  // namespace shardsim::test
