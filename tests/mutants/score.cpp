#include "tests/mutants/score.hpp"

#include <cstdio>
#include <map>
#include <string_view>
#include <utility>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

namespace shardsim::test {

namespace {

// Prints itself when the program ends: no test case knows which one is the last.
class Score {
 public:
  Score() = default;
  Score(const Score&) = delete;
  Score& operator=(const Score&) = delete;
  ~Score() { print(); }

  void add(Detector found_by) {
    ++num_mutants_;
    ++found_[found_by];
  }
  void add_survivor(const std::string& bug, const std::string& reason) {
    ++survivors_[bug + ": " + reason];
  }

 private:
  [[nodiscard]] int of(Detector detector) const {
    const auto place = found_.find(detector);
    return place == found_.end() ? 0 : place->second;
  }
  void print() const noexcept {
    if (num_mutants_ == 0) return;
    std::printf(
        "P56: %d of %d mutants found: %d by the oracle, %d by deadlock, %d by mismatch, "
        "%d by absence, %d by watching buffers, %d by the validator, "
        "%d by activations in flight\n",
        num_mutants_ - of(Detector::nobody), num_mutants_, of(Detector::oracle),
        of(Detector::deadlock), of(Detector::mismatch), of(Detector::absence),
        of(Detector::buffers), of(Detector::validator), of(Detector::in_flight));
    for (const auto& [survivor, count] : survivors_) {
      std::printf("P56: %d survive: %s\n", count, survivor.c_str());
    }
  }

  int num_mutants_ = 0;
  std::map<Detector, int> found_;
  std::map<std::string, int> survivors_;  // Bug and reason.
};

Score& suite() {
  static Score score;
  return score;
}

}  // namespace

Result result_of(const Mutant& mutant) {
  const Scenario scenario =
      load_scenario("scenarios/verify-" + mutant.scenario + ".json", {"execution.steps=1"});
  return run_scenario(scenario, {.wrap_world = plant(mutant.faults)}).result;
}

Detector finder_in(const Diagnosis& diagnosis) {
  const std::string_view code = diagnosis.code;
  if (code == "DEADLOCK") return Detector::deadlock;
  if (code == "COLL_MISSING" || code == "P2P_UNMATCHED") return Detector::absence;
  if (code.starts_with("BUF_")) return Detector::buffers;
  const bool is_mismatch =
      code == "P2P_MISMATCH" || code == "P2P_TRUNC" || code.starts_with("COLL_");
  return is_mismatch ? Detector::mismatch : Detector::nobody;
}

Detector finder_in(const Result& result) {
  if (result.diagnosis) return finder_in(*result.diagnosis);
  for (const Check& check : result.checks) {
    if (check.name == "oracle" && !check.passed && result.exit_code == 1) return Detector::oracle;
  }
  return Detector::nobody;
}

void count_mutant(Detector expected, Detector found_by) {
  suite().add(found_by);
  CHECK(found_by == expected);
}

void count_survivor(const std::string& bug, const std::string& reason, Detector found_by) {
  suite().add(found_by);
  if (found_by == Detector::nobody) suite().add_survivor(bug, reason);
  CHECK(found_by == Detector::nobody);
}

}  // namespace shardsim::test
