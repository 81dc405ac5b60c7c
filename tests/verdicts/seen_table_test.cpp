#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "scenarios/load.hpp"

#include "tests/mutants/shifted_mask.hpp"
#include "tests/sample.hpp"
#include "tests/verdicts/planted_bugs.hpp"

// Plants each bug in each verify scenario that it concerns. seen_by_scenarios.txt is the table: how
// many scenarios a bug concerns, how many see it, and which do not. UPDATE_GOLDEN with
// SHARDSIM_LONG rewrites it; a sample of the scenarios is held against it.
namespace shardsim::test {

namespace {

constexpr const char* kSeenTableFile = "tests/verdicts/seen_by_scenarios.txt";
// About one in this many scenarios runs.
constexpr int kScenariosOf = 40;
// A bug that only one or two see is lost as soon as their sizes change.
constexpr int kFewest = 3;

struct SeenBy {
  int concerned = 0;
  std::set<std::string> unseen;  // Scenarios.

  [[nodiscard]] int seen() const { return concerned - static_cast<int>(unseen.size()); }
  friend bool operator==(const SeenBy&, const SeenBy&) = default;
};
using SeenTable = std::map<std::string, SeenBy>;  // By bug.

// Products in blocks need long rows: such runs take as long as all others together, and have the
// layouts of others.
bool is_small(const std::string& name) {
  constexpr std::int64_t kLongest = 32;
  return load_scenario("scenarios/verify-" + name + ".json").model.seq_len <= kLongest;
}

std::vector<std::string> all_verified() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("scenarios")) {
    const std::string name = entry.path().stem().string();
    if (name.starts_with("verify-") && entry.path().extension() == ".json") {
      names.push_back(name.substr(std::string("verify-").size()));
    }
  }
  std::ranges::sort(names);
  return names;
}

// Late gradients and averages of replicas come after some steps, and the first steps of a loss
// scale may overflow.
Scenario verified_in(const std::string& name, int steps) {
  const std::string path = "scenarios/verify-" + name + ".json";
  const Scenario shipped = load_scenario(path);
  const ParallelismSpec& parallelism = shipped.parallelism;
  if (parallelism.changes_algorithm() || parallelism.is_elastic()) steps = std::max(steps, 3);
  if (shipped.training.loss_scaling != LossScaling::Mode::none) steps = std::max(steps, 5);
  return load_scenario(path, {fmt::format("execution.steps={}", steps)});
}

bool is_seen_in(const PlantedBug& bug, const Scenario& scenario) {
  try {
    return bug.run(scenario).exit_code != 0;
  } catch (const std::exception&) {
    return true;  // Ranks whose counts do not fit their rows do not even train.
  }
}

void add_seen_by(const std::string& name, SeenTable& table) {
  for (const PlantedBug& bug : bugs_of(calls_of(verified_in(name, 1)))) {
    SeenBy& row = table[bug.name];
    ++row.concerned;
    if (!is_seen_in(bug, verified_in(name, bug.steps))) row.unseen.insert(name);
  }
}

std::string seen_row_of(const std::string& bug, const SeenBy& row) {
  std::string text = fmt::format("{} | {} of {} |", bug, row.seen(), row.concerned);
  for (const std::string& name : row.unseen) text += " " + name;
  return text;
}

// Lines of seen_row_of.
SeenTable read_seen_table() {
  std::ifstream file(kSeenTableFile);
  REQUIRE(file);
  SeenTable table;
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t bar = line.find(" | ");
    REQUIRE(bar != std::string::npos);
    std::istringstream rest(line.substr(bar + 3));
    int seen = 0;
    std::string word;
    SeenBy& row = table[line.substr(0, bar)];
    rest >> seen >> word >> row.concerned >> word;
    while (rest >> word) row.unseen.insert(word);
    INFO(line);
    CHECK(row.seen() == seen);
  }
  return table;
}

void write_seen_table(const SeenTable& table) {
  std::ofstream file(kSeenTableFile, std::ios::binary);
  for (const auto& [bug, row] : table) file << seen_row_of(bug, row) << "\n";
}

}  // namespace

TEST_CASE("mutants: each is seen by scenarios as the table says") {
  SeenTable now;
  std::set<std::string> run;
  for (const std::string& name : all_verified()) {
    if (!in_sample(name, kScenariosOf) || !is_small(name)) continue;
    run.insert(name);
    add_seen_by(name, now);
  }
  if (long_run() && std::getenv("UPDATE_GOLDEN") != nullptr) write_seen_table(now);
  const SeenTable table = read_seen_table();
  int planted = 0;
  for (const auto& [bug, row] : now) {
    planted += row.concerned;
    INFO(bug << ": SHARDSIM_LONG=1 UPDATE_GOLDEN=1 writes " << kSeenTableFile << " anew");
    REQUIRE(table.count(bug) == 1);
    std::set<std::string> expected;
    for (const std::string& name : table.at(bug).unseen) {
      if (run.count(name) == 1) expected.insert(name);
    }
    CHECK(row.unseen == expected);
  }
  if (long_run()) CHECK(now == table);
  std::puts(
      fmt::format("figures: {} bugs were planted in {} scenarios", planted, run.size()).c_str());
}

TEST_CASE("mutants: none is seen by few of the scenarios that it concerns") {
  const SeenTable table = read_seen_table();
  for (const auto& [bug, row] : table) {
    std::puts(fmt::format("figures: {:4} of {:4} see: {}", row.seen(), row.concerned, bug).c_str());
    INFO(seen_row_of(bug, row));
    CHECK(row.seen() >= std::min(kFewest, row.concerned));
  }
  for (const char* bug : {kDroppedRest, kShiftedMask}) {
    INFO(bug);
    REQUIRE(table.count(bug) == 1);
    const SeenBy& row = table.at(bug);
    CHECK(row.concerned > 20);
    CHECK(2 * row.seen() >= row.concerned);
  }
}

TEST_CASE("mutants: attention that is written anew, with the right mask, trains as one device") {
  for (const char* name : {"gpt-cp4-ring", "llama-cp4-two-level", "llama-sinks-cp2-ring",
                           "llama-copied-heads-windows-cp2-tp4-dp2"}) {
    INFO(name);
    CHECK(run_with_plain_mask(verified_in(name, 2)).exit_code == 0);
  }
}

}  // namespace shardsim::test
