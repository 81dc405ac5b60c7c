#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/drawn_scenario.hpp"
#include "tests/property/check_property.hpp"

// A correct strategy must pass, whatever is drawn. The ranks of this simulator train as one device
// does, so each verdict against them is the oracle's own mistake.
namespace shardsim::test {

namespace {

// With seed 20261121 and SHARDSIM_LONG=1, the bounds of commit e647d66 were wrong about 255 of
// 6,000 drawn scenarios (194 false differences, 61 times nothing is proven). They were wrong about
// 48 of 500 shipped ones.

// The share of draws that the loader must accept; with fewer, the property tests too little.
constexpr double kLeastAccepted = 0.8;

// The largest share of draws that nobody can judge; their loader says so in advance. The argument
// stands beside warn_about_decay (scenarios/load.cpp).
constexpr double kMostWarned = 0.01;
constexpr const char* kCannotBeJudged = "with this data parallelism the oracle then fails";

enum class Verdict {
  proven,    // "trains the same model as one device".
  wrong,     // A false difference.
  unproven,  // "nothing is proven".
  warned,    // Not run: a warning of the loader says that the oracle cannot judge it.
  refused,   // The run refuses it after the loader accepted it.
  other,     // A diagnosis, too little memory, or another check failed.
};

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::proven:
      return "proven";
    case Verdict::wrong:
      return "wrong";
    case Verdict::unproven:
      return "unproven";
    case Verdict::warned:
      return "warned of";
    case Verdict::refused:
      return "refused";
    case Verdict::other:
      break;
  }
  return "other";
}

struct Outcome {
  Verdict verdict = Verdict::proven;
  std::string detail;
};

bool is_oracle(const Check& check) { return check.name == "oracle"; }

Outcome outcome_of(const Result& result) {
  const bool is_judged = std::any_of(result.checks.begin(), result.checks.end(), is_oracle);
  if (!is_judged && !result.diagnosis) return {Verdict::other, "no oracle has judged it"};
  if (result.exit_code == 0) return {};
  if (result.diagnosis) return {Verdict::other, result.diagnosis->to_text()};
  for (const Check& check : result.checks) {
    if (check.passed) continue;
    if (!is_oracle(check)) return {Verdict::other, check.name + ": " + check.detail};
    const bool unproven = check.detail.find("nothing is proven") != std::string::npos;
    return {unproven ? Verdict::unproven : Verdict::wrong, check.detail};
  }
  return {Verdict::other, fmt::format("exit code {}", result.exit_code)};
}

Outcome outcome_of(const Scenario& scenario) {
  for (const std::string& warning : scenario.warnings) {
    if (warning.find(kCannotBeJudged) != std::string::npos) return {Verdict::warned, warning};
  }
  try {
    return outcome_of(run_scenario(scenario).result);
  } catch (const Error& error) {
    return {Verdict::refused, error.what()};
  }
}

// The verdicts on draws, by precision.
class Tally {
 public:
  explicit Tally(std::string title) : title_(std::move(title)) {}

  void add_drawn() { ++num_drawn_; }
  void add(const Scenario& scenario, const Outcome& outcome) {
    const TrainingSpec& training = scenario.training;
    const std::string types = fmt::format("{}, reduced in {}", to_string(training.precision),
                                          to_string(training.grad_reduce_dtype));
    ++num_accepted_;
    ++of_types_[types][outcome.verdict];
    ++of_all_[outcome.verdict];
  }

  [[nodiscard]] double share_accepted() const {
    return static_cast<double>(num_accepted_) / num_drawn_;
  }
  [[nodiscard]] double share_warned() const {
    const auto found = of_all_.find(Verdict::warned);
    return found == of_all_.end() ? 0.0 : static_cast<double>(found->second) / num_drawn_;
  }
  void print() const {
    std::printf("figures: %s, seed %llu: %d of %d draws are accepted:%s\n", title_.c_str(),
                static_cast<unsigned long long>(property_seed()), num_accepted_, num_drawn_,
                words(of_all_).c_str());
    for (const auto& [types, counts] : of_types_) {
      if (counts.size() > 1)
        std::printf("figures:   %s:%s\n", types.c_str(), words(counts).c_str());
    }
  }

 private:
  using Counts = std::map<Verdict, int>;

  static std::string words(const Counts& counts) {
    std::string text;
    for (const auto& [verdict, count] : counts) {
      text += fmt::format(" {} {}", count, name_of(verdict));
    }
    return text;
  }

  std::string title_;
  int num_drawn_ = 0;
  int num_accepted_ = 0;
  std::map<std::string, Counts> of_types_;
  Counts of_all_;
};

// `text`: the command that shows the same to a person. Call it within a property.
void expect_proven(Tally& tally, const std::string& text, const std::function<Scenario()>& load) {
  tally.add_drawn();
  std::optional<Scenario> scenario;
  try {
    scenario = load();
  } catch (const ScenarioError&) {
    RC_DISCARD("the loader refuses it");
  }
  const Outcome outcome = outcome_of(*scenario);
  tally.add(*scenario, outcome);
  if (outcome.verdict != Verdict::proven && outcome.verdict != Verdict::warned) {
    RC_FAIL(std::string(name_of(outcome.verdict)) + ": " + outcome.detail + "\n" + text);
  }
}

// The scenarios/verify-*.json that rounding may affect; others are verified in fp64 alone.
std::vector<std::string> shipped_scenarios() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator("scenarios")) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("verify-", 0) == 0 && entry.path().extension() == ".json") {
      paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

TEST_CASE("verdicts: no drawn strategy is said to be wrong, or unproven") {
  Tally tally("verdicts of drawn scenarios");
  check_property(300, [&] {
    const std::string text = draw_verify_scenario().text();
    expect_proven(tally, text, [&] { return load_scenario_text(text, "drawn.json"); });
  });
  tally.print();
  CHECK(tally.share_accepted() >= kLeastAccepted);
  CHECK(tally.share_warned() < kMostWarned);
}

TEST_CASE("verdicts: no shipped strategy in another precision is said to be wrong, or unproven") {
  const std::vector<std::string> paths = shipped_scenarios();
  const std::vector<std::string> precisions = {"fp64", "fp32", "bf16", "fp16"};
  Tally tally("verdicts of shipped scenarios");
  check_property(25, [&] {
    const std::string path = *rc::gen::elementOf(paths);
    const std::string precision = *rc::gen::elementOf(precisions);
    const std::string reduced = *rc::gen::elementOf(precisions);
    std::vector<std::string> changes = {
        "training.precision=" + precision, "training.grad_reduce_dtype=" + reduced,
        "execution.seed=" + std::to_string(*rc::gen::resize(1000, rc::gen::inRange(1, 1000000))),
        "execution.steps=2"};
    if (precision == "fp16" || reduced == "fp16") {
      changes.emplace_back("training.loss_scaling=dynamic");
      changes.emplace_back("training.loss_scale=256");
    }
    std::string text = "shardsim " + path;
    for (const std::string& change : changes) text += " --set " + change;
    expect_proven(tally, text, [&] { return load_scenario(path, changes); });
  });
  tally.print();
}

// One device rounds the sum of a token's experts once; ranks round parts of it.
TEST_CASE("verdicts: sums of experts over ranks are not said to be wrong") {
  for (const char* name : {"llama-experts-etp4-pp2-zero3", "llama-ep4-per-node"}) {
    const std::string path = std::string("scenarios/verify-") + name + ".json";
    for (const char* precision : {"fp32", "bf16"}) {
      for (const char* seed : {"1", "2", "3"}) {
        const std::vector<std::string> changes = {
            std::string("training.precision=") + precision, "training.grad_reduce_dtype=fp32",
            std::string("execution.seed=") + seed, "execution.steps=2"};
        const Outcome outcome = outcome_of(load_scenario(path, changes));
        CAPTURE(path, precision, seed, outcome.detail);
        CHECK((outcome.verdict == Verdict::proven || outcome.verdict == Verdict::warned));
      }
    }
  }
}

}  // namespace shardsim::test
