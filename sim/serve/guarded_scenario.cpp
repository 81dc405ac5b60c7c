#include "sim/serve/guarded_scenario.hpp"

#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/load.hpp"
#include "scenarios/presets.hpp"

namespace shardsim {

namespace {

// No folder: so there is no preset and no other file beside the scenario.
constexpr const char* kNowhere = "/dev/null";

// Errors tell no folder of this machine.
ScenarioError with_own_name(const ScenarioError& error, const std::string& file) {
  std::vector<Problem> problems = error.problems();
  for (Problem& problem : problems) {
    if (problem.file == file) problem.file = kScenarioOfPage;
  }
  return {std::move(problems), error.num_dropped()};
}

Scenario load_named(const std::string& text, const std::string& file, const ServeLimits& limits) {
  try {
    return load_scenario_text(text, file, {}, limits.scenario);
  } catch (const ScenarioError& error) {
    throw with_own_name(error, file);
  }
}

Problem problem_at(const char* code, const std::string& pointer, const std::string& message,
                   const std::string& help) {
  Problem problem;
  problem.code = code;
  problem.file = kScenarioOfPage;
  problem.pointer = pointer;
  problem.message = message;
  problem.help = help;
  return problem;
}

void refuse_what_is_no_plan(const Scenario& scenario) {
  std::vector<Problem> problems;
  if (scenario.execution.tensors != TensorMode::meta) {
    problems.push_back(problem_at("E0361", "/execution/tensors",
                                  "a page simulates plans alone, without real data",
                                  "leave execution.tensors out, or use \"shardsim run\""));
  }
  if (scenario.execution.backend != ExecutionSpec().backend) {
    problems.push_back(problem_at("E0361", "/execution/backend", "a page starts no processes",
                                  "leave execution.backend out, or use \"shardsim run\""));
  }
  if (!problems.empty()) throw ScenarioError(std::move(problems), 0);
}

// Ranks of equal work are recorded once, so the length of one is what takes memory.
void refuse_long_programs(const Scenario& scenario, const ServeLimits& limits) {
  const std::int64_t at_most = limits.max_layer_passes / scenario.model.num_layers;
  const std::int64_t microbatches = scenario.training.num_microbatches;
  if (microbatches <= at_most && scenario.execution.steps <= at_most / microbatches) return;
  throw ScenarioError(
      {problem_at("E0367", "/training/global_batch_size",
                  fmt::format("{} layers x {} microbatches x {} steps are more than the {} of a "
                              "page",
                              scenario.model.num_layers, microbatches, scenario.execution.steps,
                              limits.max_layer_passes),
                  "use a smaller batch, a larger micro-batch or fewer steps; \"shardsim run\" has "
                  "other limits")},
      0);
}

void refuse_files(const OutputSpec& output) {
  std::vector<Problem> problems;
  const auto refuse = [&problems](const std::string& name, const char* key) {
    if (name.empty()) return;
    problems.push_back(problem_at("E0362", fmt::format("/output/{}", key),
                                  fmt::format("output.{}: a page writes no files", key),
                                  "leave it out, or use \"shardsim run\""));
  };
  refuse(output.report, "report");
  refuse(output.markdown, "markdown");
  refuse(output.csv, "csv");
  refuse(output.trace, "trace");
  refuse(output.result, "result");
  if (!problems.empty()) throw ScenarioError(std::move(problems), 0);
}

}  // namespace

std::vector<std::string> readable_folders(const std::string& folder) {
  std::vector<std::string> folders;
  for (const std::string& presets : builtin_preset_directories()) {
    folders.push_back(presets + "/models");
    folders.push_back(presets + "/systems");
  }
  if (!folder.empty()) folders.push_back(folder);
  return folders;
}

Scenario guarded_scenario(const std::string& text, const std::string& folder,
                          const ServeLimits& limits) {
  const std::filesystem::path beside = folder.empty() ? kNowhere : folder;
  Scenario scenario = load_named(text, (beside / kScenarioOfPage).string(), limits);
  refuse_what_is_no_plan(scenario);
  refuse_files(scenario.output);
  refuse_long_programs(scenario, limits);
  return scenario;
}

}  // namespace shardsim
