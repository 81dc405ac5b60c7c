#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "scenarios/load.hpp"
#include "sim/accuracy/table_mapping.hpp"
#include "sim/accuracy/validated_table.hpp"
#include "sim/run/band/error_band.hpp"
#include "sim/run/band/measured_errors.hpp"

#include "tests/app/command_fixture.hpp"

// Whether the file of errors is of these mappings, told without running a row: `validation_whole`
// compares the errors themselves, in minutes.
namespace shardsim::test {
namespace {

// "a100-sxm under megatron-lm-2021" and the like, of each table.
using Settings = std::map<std::string, std::set<std::string>>;

void add(Settings& settings, const std::string& table, const std::string& device,
         const std::string& software, bool has_experts) {
  settings[table].insert(device + " under " + software + (has_experts ? ", experts" : ""));
}

bool was_measured(const TableMapping& mapping, const MeasurementRow& row) {
  return std::any_of(mapping.measured.begin(), mapping.measured.end(), [&](const auto& how) {
    return how && convert(*how, mapping.table, row).kind == RowValue::Kind::given;
  });
}

// Each row of the headline that loads, as its mapping says and without a framework. `unbanded`: by
// the reason why rows have no band, the tables that have such.
void add_mapping(const std::string& path, Settings& settings, Settings& unbanded) {
  const TableMapping mapping = read_table_mapping(path);
  for (const MeasurementRow& row : mapping.table.rows) {
    const RowScenario scenario = row_scenario_of(mapping, row);
    if (!scenario.refused.empty() || !scenario.apart.empty()) continue;
    if (!was_measured(mapping, row)) continue;
    try {
      const Experiment experiment =
          compile(load_scenario_text(mapping.scenario_text, mapping.path, scenario.overrides));
      const std::string why = why_no_band(experiment);
      if (!why.empty()) unbanded[why].insert(mapping.name);
      if (!why.empty()) continue;
      const RunSetting setting = run_setting_of(experiment);
      add(settings, mapping.name, setting.device, setting.software, setting.has_experts);
      add(settings, mapping.name, setting.device, "none", setting.has_experts);
    } catch (const Error&) {
      continue;  // `shardsim validate` lists such rows as refused.
    }
  }
}

Settings settings_of_mappings(Settings& unbanded) {
  Settings settings;
  for (const auto& entry : std::filesystem::directory_iterator("tests/validation")) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() != ".json" || path.filename() == "ratchet.json") continue;
    add_mapping(path.string(), settings, unbanded);
  }
  return settings;
}

}  // namespace

TEST_CASE(
    "the file of errors has the tables of the mappings, on their devices, with their software") {
  Settings in_file;
  const std::string path = "sim/run/band/measured_errors.json";
  for (const MeasuredError& error : parse_measured_errors(content_of(path), path).errors) {
    add(in_file, error.table, error.setting.device, error.setting.software,
        error.setting.has_experts);
  }
  Settings unbanded;
  const Settings today = settings_of_mappings(unbanded);
  std::set<std::string> tables;
  for (const auto& [table, settings] : today) tables.insert(table);
  for (const auto& [table, settings] : in_file) tables.insert(table);
  CHECK(tables.size() >= 13);
  INFO("else: shardsim validate --write-band " << path);
  for (const std::string& table : tables) {
    INFO(table);
    REQUIRE(today.count(table) == 1);
    REQUIRE(in_file.count(table) == 1);
    CHECK(in_file.at(table) == today.at(table));
  }
  // These reasons are told to users, and must be true of the tables.
  CHECK(unbanded.count("no run in a band offloads to the host") == 1);
  for (const auto& [why, of] : unbanded) {
    INFO(why);
    CHECK(why.rfind("no measured run has ", 0) != 0);
  }
}

}  // namespace shardsim::test
