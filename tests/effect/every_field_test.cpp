#include <algorithm>
#include <exception>
#include <optional>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/effect/probe.hpp"
#include "tests/effect/settings.hpp"
#include "tests/sample.hpp"

// Sets every field of the schema, in three scenarios: each one acts, or is named.
namespace shardsim::test {
namespace {

struct Base {
  const char* name;
  int least_heard;  // Fields with another legal value there. Fewer: the test lost some.
};
constexpr Base kBases[] = {{"dense", 142}, {"experts", 142}, {"verify", 133}};

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

struct Ran {
  std::optional<Probe> probe;  // Nothing: the loader refuses it, or it exceeds a limit.
  std::string refusal;         // Anything else that the run throws.
};

Ran run(const std::optional<Scenario>& scenario) {
  if (!scenario) return {};
  try {
    return {probe_of(run_scenario(*scenario).result), ""};
  } catch (const Error& error) {
    if (error.exit_code() == ExitCode::does_not_fit) return {};
    return {std::nullopt, error.what()};
  } catch (const std::exception& error) {
    return {std::nullopt, error.what()};
  }
}

// Judges the first setting that the base accepts.
Heard heard(const std::string& path, const std::string& base,
            const std::vector<Setting>& settings) {
  for (const Setting& setting : settings) {
    const Ran after = run(loaded(base, with(setting.beside, flag_path(path), setting.after)));
    if (!after.refusal.empty()) {
      return {path, base, Hearing::refused, false, setting.after + ": " + after.refusal};
    }
    if (!after.probe) continue;
    const Ran before = run(loaded(base, with(setting.beside, flag_path(path), setting.before)));
    if (!before.refusal.empty()) return {path, base, Hearing::refused, false, before.refusal};
    if (before.probe) return {path, base, hearing_of(path, *before.probe, *after.probe)};
  }
  return {path, base, std::nullopt};
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

constexpr int kSampleOf = 3;

bool can_be_heard(const Field& field) {
  return !names_file(field) && !is_in(exceptions(), field.path);
}

bool is_to_be_heard(const Field& field) {
  return in_sample(field.path, kSampleOf) && can_be_heard(field);
}

std::vector<Heard> heard_in(const std::string& base) {
  const std::optional<Scenario> scenario = loaded(base, {});
  REQUIRE(scenario.has_value());
  REQUIRE(run(scenario).probe.has_value());
  std::vector<Heard> all;
  for (const Field& field : field_table()) {
    if (is_to_be_heard(field)) {
      all.push_back(heard(field.path, base, settings_of(field, *scenario)));
    }
  }
  return all;
}

}  // namespace

TEST_CASE("what somebody sets acts, or is named") {
  std::vector<Heard> all;
  for (const Base& base : kBases) {
    INFO(base.name);
    const std::vector<Heard> here = heard_in(base.name);
    // A sample may fall short of the whole list's share by a sixth.
    const auto num_all = std::ranges::count_if(field_table(), can_be_heard);
    const auto share = static_cast<double>(base.least_heard) / static_cast<double>(num_all);
    const double least = share * static_cast<double>(here.size()) * (long_run() ? 1.0 : 5.0 / 6.0);
    REQUIRE(here.size() >= static_cast<std::size_t>(num_all) / kSampleOf / 2);
    CHECK(static_cast<double>(std::ranges::count_if(
              here, [](const Heard& h) { return h.hearing.has_value(); })) >= least);
    all.insert(all.end(), here.begin(), here.end());
  }
  for (const Home& home : homes()) {
    if (!in_sample(home.path, kSampleOf)) continue;
    all.push_back(heard(home.path, home.base, {home.setting}));
    all.back().at_home = true;
  }
  std::vector<std::string> to_act;
  for (const Field& field : field_table()) {
    if (is_to_be_heard(field) && !is_in(without_home(), field.path)) to_act.push_back(field.path);
  }
  CHECK(complaints(to_act, all) == std::vector<std::string>());
}

}  // namespace shardsim::test
