#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <rapidcheck.h>

#include "scenarios/load.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/edge/edge_scenario.hpp"
#include "tests/property/check_property.hpp"

// `run` does not refuse what `check` accepts; both refuse the rest for the same reasons.
namespace shardsim::test {

namespace {

using Json = nlohmann::json;

// The least share of accepted draws; with fewer, the test says little about runs.
constexpr double kLeastAccepted = 1.0 / 3.0;

/// Codes of problems, as --json prints them; none if it is no such object.
std::multiset<std::string> codes_of(const std::string& json) {
  std::multiset<std::string> codes;
  const Json document = Json::parse(json, nullptr, false);
  if (!document.is_object() || !document.contains("errors")) return {};
  for (const Json& problem : document["errors"])
    codes.insert(problem.at("code").get<std::string>());
  return codes;
}

bool has_diagnosis(const std::string& json) {
  const Json result = Json::parse(json, nullptr, false);
  return result.is_object() && result.contains("diagnosis") && result["diagnosis"].is_object();
}

/// The difference between both verdicts; "" if they agree.
std::string disagreement(const Printed& checked, const Printed& ran) {
  if (checked.exit_code != 0) {
    // Draws beyond a limit are discarded. A crash in both would be no agreement.
    if (checked.exit_code != 2) return fmt::format("check ends with {}", checked.exit_code);
    if (ran.exit_code != checked.exit_code) {
      return fmt::format("check ends with {}, run with {}", checked.exit_code, ran.exit_code);
    }
    const std::multiset<std::string> reasons = codes_of(checked.out);
    if (reasons.empty()) return "check refuses without a list of problems";
    if (reasons != codes_of(ran.out)) return "check and run give other reasons";
    return "";
  }
  if (ran.exit_code == 0 || ran.exit_code == 1 || ran.exit_code == 3) return "";
  if (ran.exit_code == 4 && has_diagnosis(ran.out)) return "";
  std::string codes;
  for (const std::string& code : codes_of(ran.out)) codes += " " + code;
  return fmt::format("check accepts, run ends with {}:{}", ran.exit_code, codes);
}

// Whether its run takes no more than a moment, or is refused for another reason.
bool is_small(const std::string& text) {
  try {
    static_cast<void>(load_scenario_text(text, "edge.json", {}, kSmall));
  } catch (const ScenarioError& error) {
    const auto& problems = error.problems();
    return std::none_of(problems.begin(), problems.end(),
                        [](const Problem& problem) { return problem.code.rfind("E03", 0) == 0; });
  }
  return true;
}

/// The shortest scenario of each kind of disagreement.
class Disagreements {
 public:
  void add(const std::string& kind, const std::string& text, const Printed& ran) {
    Example& example = by_kind_[kind];
    ++example.count;
    if (example.text.empty() || text.size() < example.text.size()) {
      example.text = text;
      example.said = (ran.out + ran.err).substr(0, 1500);
    }
  }
  [[nodiscard]] bool empty() const { return by_kind_.empty(); }
  [[nodiscard]] std::string text() const {
    std::string text;
    for (const auto& [kind, example] : by_kind_) {
      text += fmt::format("{} times {}\n{}\n{}\n", example.count, kind, example.text, example.said);
    }
    return text;
  }

 private:
  struct Example {
    int count = 0;
    std::string text;
    std::string said;
  };
  std::map<std::string, Example> by_kind_;
};

}  // namespace

TEST_CASE("what check accepts, run does not refuse, and what it refuses, run refuses alike") {
  const TemporaryFolder folder;
  const std::string file = folder / "edge.json";
  Disagreements disagreements;
  std::map<int, int> endings;
  int num_drawn = 0;
  int num_accepted = 0;
  check_property(500, [&] {
    const std::string text = draw_edge_scenario().text();
    if (!is_small(text)) RC_DISCARD("a long run");
    write(file, text);
    ++num_drawn;
    const Printed checked = shardsim({"check", "--json", file});
    const Printed ran = shardsim({"run", "--json", "-q", "--out", folder / "out", file});
    if (checked.exit_code == 0) {
      ++num_accepted;
      ++endings[ran.exit_code];
    }
    const std::string kind = disagreement(checked, ran);
    if (!kind.empty()) disagreements.add(kind, text, ran);
  });
  std::printf("figures: check and run, seed %llu: %d of %d draws are accepted; runs end with",
              static_cast<unsigned long long>(property_seed()), num_accepted, num_drawn);
  for (const auto& [code, count] : endings) std::printf(" %d: %d,", code, count);
  std::printf("\n");
  INFO("seed " << property_seed() << "\n" << disagreements.text());
  CHECK(disagreements.empty());
  CHECK(num_accepted >= kLeastAccepted * num_drawn);
}

}  // namespace shardsim::test
