#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/experiment/experiment.hpp"

#include "tests/mutants/context_faults.hpp"
#include "tests/mutants/finding.hpp"
#include "tests/mutants/message_faults.hpp"
#include "tests/mutants/mutant_lists.hpp"
#include "tests/mutants/score.hpp"
#include "tests/mutants/wrong_numbers.hpp"
#include "tests/sample.hpp"

// Runs the mutants of tests/mutants below fp64: one that was found in a precision stays found in
// it. found_by_precision.txt lists them; UPDATE_GOLDEN with SHARDSIM_LONG rewrites it.
namespace shardsim::test {

namespace {

constexpr const char* kFoundFile = "tests/verdicts/found_by_precision.txt";
constexpr const char* kStale = "stale gathers";
// About one in this many mutants runs, the same in each precision.
constexpr int kSampleOf = 30;

void add_for(std::vector<Mutant>& all, const Names& names, const std::string& bug,
             const std::function<Faults()>& make) {
  // Faults count their calls, so each mutant needs its own.
  for (const std::string& name : names) all.push_back({name, bug, make()});
}

Names changes_to(const std::string& precision) {
  Names changes = {"training.precision=" + precision};
  if (precision == "fp16") changes.emplace_back("training.loss_scale=256");
  return changes;
}

// The size of a type decides the number of buckets.
void add_chunks(std::vector<Mutant>& all, const std::string& name, const std::string& precision,
                bool gathers) {
  const Experiment experiment = compile(scenario_of(name, 1, changes_to(precision)));
  for (const FlatChunk& chunk : experiment.plan().layout(0).chunks()) {
    all.push_back({name, "no sum of " + chunk.label, dropped_reduction(chunk.label)});
    if (gathers) all.push_back({name, "no gather of " + chunk.label, dropped_gather(chunk.label)});
  }
}

std::vector<Mutant> data_parallel_mutants(const std::string& precision) {
  std::vector<Mutant> all;
  add_for(all, kAll, "no averaging", no_averaging);
  add_for(all, kAll, "a mean of means", mean_of_means);
  add_for(all, kAll, "averaged twice", double_averaging);
  add_for(all, kAll, "reduced by maximum", reduced_by_max);
  add_for(all, kAll, "rank 0 counts double", own_part_twice);
  add_for(all, kAll, "the last rank is lost", lost_contribution);
  add_for(all, kDdp, "reduced twice", reduced_twice);
  add_for(all, kDdp, "neighbours as a group", [] { return neighbours_as_group("dp"); });
  add_for(all, kHsdp, "replicas are not reduced", no_replicate_reduction);
  add_for(all, kSharded, kStale, stale_gather);
  add_for(all, kSharded, "shifted reduce_scatter", shifted_reduce_scatter);
  add_for(all, kSharded, "shifted gather", shifted_gather);
  add_for(all, kSharded, "a group in reverse", [] { return reversed_group("dp_shard"); });
  for (const std::string& name : kSharded) {
    if (scenario_of(name).training.max_grad_norm == 0.0) continue;
    all.push_back({name, "the norm of one shard", local_norm()});
  }
  for (const std::string& name : kDdp) add_chunks(all, name, precision, /*gathers=*/false);
  for (const std::string& name : kSharded) add_chunks(all, name, precision, /*gathers=*/true);
  return all;
}

std::vector<Mutant> all_mutants(const std::string& precision) {
  std::vector<Mutant> all = data_parallel_mutants(precision);
  for (const auto& more : {model_parallel_mutants(), message_mutants(), context_parallel_mutants(),
                           expert_mutants()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

// Scenarios in one precision, and whether they pass without a bug. If one fails, finding a mutant
// shows nothing.
class Bases {
 public:
  explicit Bases(std::string precision) : precision_(std::move(precision)) {}

  [[nodiscard]] Scenario scenario(const std::string& name, int steps) const {
    return scenario_of(name, steps, changes_to(precision_));
  }
  [[nodiscard]] bool is_right(const std::string& name) {
    const auto [place, is_new] = right_.try_emplace(name, false);
    if (is_new) place->second = run_scenario(scenario(name, 2)).result.exit_code == 0;
    return place->second;
  }

 private:
  std::string precision_;
  std::map<std::string, bool> right_;
};

using FoundIn = std::map<std::string, std::set<std::string>>;  // Mutant to precisions.

// `num_mutants` counts the mutants in all precisions.
FoundIn find_mutants(int& num_mutants) {
  FoundIn found;
  for (const std::string precision : {"fp32", "bf16", "fp16"}) {
    Bases bases(precision);
    for (const Mutant& mutant : all_mutants(precision)) {
      const std::string name = mutant.scenario + ": " + mutant.bug;
      if (!in_sample(name, kSampleOf)) continue;
      std::set<std::string>& precisions = found[name];
      ++num_mutants;
      if (long_run() && !bases.is_right(mutant.scenario)) continue;
      // Weights are stale only when they have changed.
      const int steps = mutant.bug == kStale ? 2 : 1;
      const Scenario scenario = bases.scenario(mutant.scenario, steps);
      const Result result = run_scenario(scenario, {.wrap_world = plant(mutant.faults)}).result;
      if (finder_in(result) != Detector::nobody) precisions.insert(precision);
    }
  }
  return found;
}

std::string text_of(const FoundIn& found) {
  std::string text;
  for (const auto& [mutant, precisions] : found) {
    text += mutant + " |";
    for (const std::string& precision : precisions) text += " " + precision;
    text += "\n";
  }
  return text;
}

FoundIn read_found() {
  std::ifstream file(kFoundFile);
  REQUIRE(file);
  FoundIn found;
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t bar = line.find(" |");
    REQUIRE(bar != std::string::npos);
    std::istringstream words(line.substr(bar + 2));
    std::string precision;
    std::set<std::string>& precisions = found[line.substr(0, bar)];
    while (words >> precision) precisions.insert(precision);
  }
  return found;
}

}  // namespace

TEST_CASE("mutants: each has a line in the list of what is found below fp64") {
  const FoundIn listed = read_found();
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    for (const Mutant& mutant : all_mutants(precision)) {
      const std::string name = mutant.scenario + ": " + mutant.bug;
      INFO(name << ": SHARDSIM_LONG=1 UPDATE_GOLDEN=1 writes found_by_precision.txt anew");
      CHECK(listed.count(name) == 1);
    }
  }
}

TEST_CASE("mutants: what was found in a precision is found in it") {
  int num_mutants = 0;
  const FoundIn now = find_mutants(num_mutants);
  if (long_run() && std::getenv("UPDATE_GOLDEN") != nullptr) {
    std::ofstream(kFoundFile, std::ios::binary) << text_of(now);
  }
  const FoundIn before = read_found();
  std::map<std::string, int> counts;
  for (const auto& [mutant, precisions] : now) {
    INFO(mutant << ": found_by_precision.txt has no such line, or says that more find it");
    REQUIRE(before.count(mutant) == 1);
    for (const std::string& precision : before.at(mutant)) CHECK(precisions.count(precision) == 1);
    for (const std::string& precision : precisions) ++counts[precision];
  }
  if (long_run()) CHECK(now.size() == before.size());
  std::string line = fmt::format("figures: of {} mutants below fp64 are found:", num_mutants);
  for (const auto& [precision, count] : counts) line += fmt::format(" {} {}", precision, count);
  std::puts(line.c_str());
}

}  // namespace shardsim::test
