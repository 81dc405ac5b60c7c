#include "tests/effect/probe.hpp"

#include <algorithm>
#include <cctype>
#include <set>

#include <nlohmann/json.hpp>

#include "reports/json_writer.hpp"
#include "sim/experiment/assumptions.hpp"

namespace shardsim::test {
namespace {

using nlohmann::json;

// Named as a whole word: parallelism.pp is not in parallelism.pp_x.
bool names(const std::string& statement, const std::string& path) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  };
  for (std::size_t at = statement.find(path); at != std::string::npos;
       at = statement.find(path, at + 1)) {
    const std::size_t end = at + path.size();
    if ((at == 0 || !is_part(statement[at - 1])) &&
        (end == statement.size() || !is_part(statement[end]))) {
      return true;
    }
  }
  return false;
}

bool says_without_effect(const Probe& probe, const std::string& path) {
  return std::any_of(probe.statements.begin(), probe.statements.end(),
                     [&](const std::string& statement) { return names(statement, path); });
}

json without_own_source(const std::string& text, const std::string& path) {
  json result = json::parse(text);
  json kept = json::array();
  for (const json& assumption : result["assumptions"]) {
    if (assumption["text"] != path) kept.push_back(assumption);
  }
  result["assumptions"] = kept;
  return result;
}

// An assumption may repeat a number on which nothing rests.
json without_assumptions(const std::string& text) {
  json result = json::parse(text);
  result.erase("assumptions");
  return result;
}

// Empty: nothing is wrong.
std::string complaint_of(const Heard& heard) {
  if (heard.hearing == Hearing::refused) return "is accepted and then refused: " + heard.said;
  if (heard.at_home) return heard.hearing == Hearing::acts ? "" : "does not act at home";
  if (heard.hearing == Hearing::silent) return "changes nothing, and nobody says so";
  if (heard.hearing == Hearing::slandered) {
    return "changes the result, and is said to have no effect";
  }
  return "";
}

}  // namespace

Probe probe_of(const Result& result) {
  Probe probe;
  json whole = json::parse(to_json(result));
  whole.erase("scenario");
  whole.erase("warnings");
  for (const std::string& warning : result.warnings) {
    const std::size_t end = warning.find(" has no effect");
    if (end != std::string::npos) probe.statements.push_back(warning.substr(0, end));
    if (warning.rfind("execution.fold is auto, but every rank was run", 0) == 0) {
      probe.statements.emplace_back("execution.fold");
    }
  }
  json kept = json::array();
  for (const json& assumption : whole["assumptions"]) {
    const auto text = assumption["text"].get<std::string>();
    if (text.rfind(kOnlyValues, 0) == 0) {
      probe.statements.push_back(text);
    } else {
      kept.push_back(assumption);
    }
  }
  whole["assumptions"] = kept;
  probe.result = whole.dump();
  return probe;
}

Hearing hearing_of(const std::string& path, const Probe& before, const Probe& after) {
  const bool acts =
      without_own_source(before.result, path) != without_own_source(after.result, path);
  const bool named = says_without_effect(after, path);
  if (named && without_assumptions(before.result) == without_assumptions(after.result)) {
    return Hearing::named;
  }
  if (acts) return named ? Hearing::slandered : Hearing::acts;
  return named ? Hearing::named : Hearing::silent;
}

std::vector<std::string> complaints(const std::vector<std::string>& to_act,
                                    const std::vector<Heard>& all) {
  std::set<std::string> acting;
  std::vector<std::string> wrong;
  for (const Heard& heard : all) {
    const std::string complaint = complaint_of(heard);
    if (!complaint.empty()) wrong.push_back(heard.base + ": " + heard.path + " " + complaint);
    if (heard.at_home || heard.hearing == Hearing::acts) acting.insert(heard.path);
  }
  for (const std::string& path : to_act) {
    if (acting.count(path) == 0) wrong.push_back(path + " acts nowhere: give it a home");
  }
  return wrong;
}

}  // namespace shardsim::test
