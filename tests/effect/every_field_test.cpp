#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "scenarios/load.hpp"
#include "sim/app/run.hpp"

#include "tests/effect/probe.hpp"
#include "tests/effect/settings.hpp"

// Sets every field of the schema, in three scenarios: each one acts, or is named.
namespace shardsim::test {
namespace {

const std::vector<std::string> kBases = {"dense", "experts", "verify"};

std::optional<Scenario> loaded(const std::string& base, const std::vector<std::string>& flags) {
  try {
    return load_scenario("tests/effect/" + base + ".json", flags);
  } catch (const ScenarioError&) {
    return std::nullopt;
  }
}

std::vector<std::string> with(std::vector<std::string> flags, const std::string& path,
                              const std::string& value) {
  if (!value.empty()) flags.push_back(path + "=" + value);
  return flags;
}

// "faults.slow_links" of "faults.slow_links[].node": lists are set whole.
std::string flag_path(const std::string& path) { return path.substr(0, path.find("[]")); }

// Returns nothing without a scenario, or if it cannot run.
std::optional<Probe> run(const std::optional<Scenario>& scenario) {
  if (!scenario) return std::nullopt;
  try {
    return probe_of(run_scenario(*scenario).result);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Judges the first setting that the base accepts; returns nothing if it accepts none.
std::optional<Hearing> heard(const std::string& path, const std::string& base,
                             const std::vector<Setting>& settings) {
  for (const Setting& setting : settings) {
    const auto after = run(loaded(base, with(setting.beside, flag_path(path), setting.after)));
    if (!after) continue;
    const auto before = run(loaded(base, with(setting.beside, flag_path(path), setting.before)));
    if (before) return hearing_of(path, *before, *after);
  }
  return std::nullopt;
}

std::vector<Setting> settings_of(const Field& field, const Scenario& base) {
  std::vector<Setting> settings = special_settings(field.path);
  if (field.get == nullptr) return settings;
  for (const std::string& value : other_values(field, field.get(base))) {
    settings.push_back({{}, "", value});
  }
  return settings;
}

bool is_in(const std::vector<Exception>& all, const std::string& path) {
  return std::any_of(all.begin(), all.end(), [&](const Exception& e) { return e.path == path; });
}

const char* words_of(Hearing hearing) {
  return hearing == Hearing::silent ? "changes nothing, and nobody says so"
                                    : "changes the result, and is said to have no effect";
}

}  // namespace

TEST_CASE("what somebody sets acts, or is named") {
  std::set<std::string> acting;
  std::vector<std::string> wrong;
  for (const std::string& base : kBases) {
    const Scenario scenario = *loaded(base, {});
    for (const Field& field : field_table()) {
      if (is_in(exceptions(), field.path)) continue;
      const auto hearing = heard(field.path, base, settings_of(field, scenario));
      if (!hearing) continue;  // No other value is legal there.
      if (*hearing == Hearing::acts) {
        acting.insert(field.path);
      } else if (*hearing != Hearing::named) {
        wrong.push_back(base + ": " + field.path + " " + words_of(*hearing));
      }
    }
  }
  for (const Home& home : homes()) {
    const auto hearing = heard(home.path, home.base, {home.setting});
    if (hearing != Hearing::acts) wrong.push_back(home.path + " does not act at home");
    acting.insert(home.path);
  }
  // Without this check, a field that never acts would pass, since each run names it.
  for (const Field& field : field_table()) {
    if (!is_in(exceptions(), field.path) && !is_in(without_home(), field.path) &&
        acting.count(field.path) == 0) {
      wrong.push_back(field.path + " acts nowhere: give it a home");
    }
  }
  CHECK(wrong == std::vector<std::string>());
}

}  // namespace shardsim::test
