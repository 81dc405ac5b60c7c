#include "sim/accuracy/validated_table.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>
#include <tuple>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

#include "scenarios/load.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/accuracy/missing_columns.hpp"
#include "sim/run/band/error_band.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

namespace {

bool holds(const RowException& exception, const MeasurementRow& row) {
  return std::all_of(exception.where.begin(), exception.where.end(),
                     [&](const auto& cell) { return row.cells[cell.first] == cell.second; });
}

void refuse(RowScenario& scenario, const std::string& needs) {
  if (needs.empty()) scenario.has_obstacle = true;
  const bool is_new = std::ranges::find(scenario.needs, needs) == scenario.needs.end();
  if (!needs.empty() && is_new) scenario.needs.push_back(needs);
}

void add(RowScenario& scenario, const std::string& field, const RowValue& value) {
  if (value.kind == RowValue::Kind::given) {
    scenario.overrides.push_back(field + "=" + value.text);
  } else if (value.kind == RowValue::Kind::refused) {
    if (scenario.refused.empty()) scenario.refused = value.text;
    refuse(scenario, value.needs);
  }
}

bool is_confirmed(const TableMapping& mapping, const MeasurementRow& row) {
  const std::string& cell = row.cells[mapping.confirmed];
  if (cell != "yes" && cell != "no") {
    throw_problem("E0925", row.places[mapping.confirmed],
                  fmt::format("\"confirmed\" is \"{}\"", printable(cell)),
                  "write yes if the row was read in its source, else no");
  }
  return cell == "yes";
}

std::string label_of(const TableMapping& mapping, const MeasurementRow& row) {
  std::string label;
  for (const std::size_t column : mapping.label) {
    if (row.cells[column].empty()) continue;
    label += fmt::format("{}{} {}", label.empty() ? "" : ", ", mapping.table.columns[column],
                         row.cells[column]);
  }
  return label;
}

// Nothing if the row does not have it.
std::optional<double> measurement_of(const TableMapping& mapping, const MeasurementRow& row,
                                     std::size_t quantity) {
  const std::optional<RowConversion>& conversion = mapping.measured.at(quantity);
  if (!conversion) return std::nullopt;
  const RowValue value = convert(*conversion, mapping.table, row);
  if (value.kind != RowValue::Kind::given) return std::nullopt;
  const std::optional<double> number = parse_number<double>(value.text);
  if (!number || !(*number > 0.0)) {
    throw_problem("E0925", row.places.front(),
                  fmt::format("{} of this row is {}, and must be a number above 0",
                              kQuantities.at(quantity).title, printable(value.text)),
                  "correct the row, or \"measured\" in the mapping");
  }
  return number;
}

// The first of several problems, and the number of the others.
std::string reason_of(const Error& error) {
  std::string reason = fmt::format("{} ({})", error.what(), error.code());
  const auto* scenario = dynamic_cast<const ScenarioError*>(&error);
  if (scenario != nullptr && scenario->problems().size() > 1) {
    reason += fmt::format(", and {} more", scenario->problems().size() - 1);
  }
  return reason;
}

// FLOPs over the peak is the share of the peak that is used, times the time. Once more for the
// pauses: of p ranks, each waits for p - 1 of m microbatches, which v chunks make shorter.
std::optional<TimeAtPeak> time_at_peak(const Experiment& experiment, const Result& result) {
  const std::string& generation = experiment.cluster().device.architecture;
  const std::optional<double> used = result.number(metric::kHfu.name);
  const std::optional<double> step = result.number(metric::kStepTimeS.name);
  if (generation.empty() || generation == "other" || !used || !step || !(*used > 0.0))
    return std::nullopt;
  const Scenario& scenario = experiment.scenario();
  const ParallelismSpec& p = scenario.parallelism;
  const auto pause = static_cast<double>(p.pp - 1) /
                     static_cast<double>(p.vpp * scenario.training.num_microbatches);
  return TimeAtPeak{*used * *step * (1.0 + pause), generation};
}

using Measured = std::array<std::optional<double>, kNumQuantities>;

void predict(const TableMapping& mapping, const std::vector<std::string>& overrides,
             const Measured& measured, const std::function<void()>& on_progress,
             ValidatedRow& row) {
  try {
    Scenario scenario = load_scenario_text(mapping.scenario_text, mapping.path, overrides);
    scenario.execution.fold = "auto";  // The same metrics, sooner.
    const Experiment experiment = compile(std::move(scenario));
    row.setting = run_setting_of(experiment);
    row.traits = row_traits_of(experiment);
    row.has_band = why_no_band(experiment).empty();
    RunHooks hooks;
    hooks.on_progress = on_progress;
    const Result result = run_experiment(experiment, hooks).result;
    row.fits = result.exit_code != static_cast<int>(ExitCode::does_not_fit);
    row.tensors_fit = result.number(metric::kMemoryPeakBytesMax).value_or(0.0) <=
                      static_cast<double>(experiment.cluster().device.memory_bytes);
    if (result.diagnosis) {
      row.refused = "the simulated run does not finish: " + result.diagnosis->summary;
      return;
    }
    row.at_peak = time_at_peak(experiment, result);
    row.parts = step_parts_of(result);
    for (std::size_t i = 0; i < kNumQuantities; ++i) {
      const std::optional<double> predicted = result.number(mapping.metrics.at(i));
      if (measured.at(i) && predicted) {
        row.quantities.at(i) = PredictedAndMeasured{*predicted, *measured.at(i)};
      }
    }
  } catch (const Error& error) {
    row.refused = reason_of(error);
    row.needs = missing_fields(error);
  }
}

// Predicts as if the scenario named no framework.
void predict_without_framework(const TableMapping& mapping, std::vector<std::string> overrides,
                               const Measured& measured, const std::function<void()>& on_progress,
                               ValidatedRow& row) {
  overrides.emplace_back("system.software=none");
  ValidatedRow other;
  predict(mapping, overrides, measured, on_progress, other);
  row.without_framework = other.quantities;
}

ValidatedRow validate_row(const TableMapping& mapping, const MeasurementRow& cells,
                          const std::function<void()>& on_progress, bool twice) {
  ValidatedRow row;
  row.line = cells.line;
  row.label = label_of(mapping, cells);
  for (const std::size_t column : mapping.by) {
    row.groups.push_back(mapping.table.columns[column] + " " + cells.cells[column]);
  }
  row.source = cells.cells[mapping.source];
  RowScenario scenario = row_scenario_of(mapping, cells);
  row.apart = scenario.apart;
  row.refused = scenario.refused;
  Measured measured;
  bool any = false;
  for (std::size_t i = 0; i < kNumQuantities; ++i) {
    measured.at(i) = measurement_of(mapping, cells, i);
    any |= measured.at(i).has_value();
  }
  if (!any) refuse(scenario, "a measurement");
  if (!any && row.refused.empty()) row.refused = "nothing of it was measured";
  if (!scenario.has_obstacle) row.needs = scenario.needs;
  if (row.refused.empty()) predict(mapping, scenario.overrides, measured, on_progress, row);
  if (row.refused.empty() && twice) {
    predict_without_framework(mapping, scenario.overrides, measured, on_progress, row);
  }
  return row;
}

using Told = std::tuple<std::string, std::string, std::int64_t, double, double>;

void add_error(const ValidatedTable& table, std::size_t quantity, const RunSetting& setting,
               const std::optional<PredictedAndMeasured>& pair, std::set<Told>& told,
               std::vector<MeasuredError>& errors) {
  if (!pair) return;
  const bool is_new = told.insert({setting.device, setting.software, setting.ranks, pair->predicted,
                                   pair->measured})
                          .second;
  if (!is_new) return;
  errors.push_back({std::string(kQuantities.at(quantity).key), table.name, setting,
                    std::round(pair->error() * 1e4) / 1e4});
}

}  // namespace

RowScenario row_scenario_of(const TableMapping& mapping, const MeasurementRow& row) {
  RowScenario scenario;
  if (!is_confirmed(mapping, row)) {
    scenario.apart = "not confirmed";
  } else if (mapping.trust > "B") {
    scenario.apart = "trust " + mapping.trust;
  }
  for (const auto& [field, conversion] : mapping.fields) {
    add(scenario, field, convert(conversion, mapping.table, row));
  }
  for (const RowException& exception : mapping.exceptions) {
    if (!holds(exception, row)) continue;
    for (const auto& [field, value] : exception.set) add(scenario, field, value);
    if (!exception.cannot.empty()) {
      scenario.refused = exception.cannot;
      refuse(scenario, exception.needs);
    }
    if (!exception.apart.empty()) scenario.apart = exception.apart;
  }
  return scenario;
}

ValidatedTable validate_table(const TableMapping& mapping, std::int64_t stride,
                              const std::function<void()>& on_progress, bool twice) {
  ValidatedTable table;
  table.name = mapping.name;
  table.title = mapping.title;
  table.trust = mapping.trust;
  table.assuming = mapping.assuming;
  table.file = std::filesystem::path(mapping.table.source->name).filename().string();
  table.rows_in_file = mapping.table.rows.size();
  table.stride = stride;
  for (std::size_t i = 0; i < mapping.table.rows.size(); i += static_cast<std::size_t>(stride)) {
    table.rows.push_back(validate_row(mapping, mapping.table.rows[i], on_progress, twice));
  }
  return table;
}

std::vector<std::string> groups_of(const ValidatedTable& table) {
  std::vector<std::string> found;
  const std::size_t columns = table.rows.empty() ? 0 : table.rows.front().groups.size();
  for (std::size_t column = 0; column < columns; ++column) {
    for (const ValidatedRow& row : table.rows) {
      const std::string& group = row.groups.at(column);
      if (std::ranges::find(found, group) == found.end()) found.push_back(group);
    }
  }
  return found;
}

std::vector<std::size_t> rows_with(const ValidatedTable& table, std::size_t quantity, bool headline,
                                   const std::string& group) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const ValidatedRow& row = table.rows[i];
    const bool is_member =
        group.empty() || std::ranges::find(row.groups, group) != row.groups.end();
    if (is_member && row.quantities.at(quantity) && row.apart.empty() == headline) {
      found.push_back(i);
    }
  }
  return found;
}

std::optional<QuantityFigures> figures_of(std::span<const ValidatedTable> tables,
                                          std::size_t quantity, bool headline,
                                          const std::string& group) {
  std::vector<std::pair<const ValidatedTable*, const ValidatedRow*>> rows;
  std::vector<PredictedAndMeasured> pairs;
  for (const ValidatedTable& table : tables) {
    for (const std::size_t index : rows_with(table, quantity, headline, group)) {
      rows.emplace_back(&table, &table.rows[index]);
      pairs.push_back(*table.rows[index].quantities.at(quantity));
    }
  }
  if (rows.empty()) return std::nullopt;
  const ErrorStatistics errors = error_statistics(pairs);
  const auto& [table, row] = rows[errors.worst];
  return QuantityFigures{quantity, errors, table->name, row->line,
                         fmt::format("line {}: {} ({:+.1f} %)", row->line, printable(row->label),
                                     100.0 * pairs[errors.worst].error())};
}

std::vector<RefusedRows> refused_rows(const ValidatedTable& table) {
  std::vector<RefusedRows> found;
  for (const ValidatedRow& row : table.rows) {
    if (row.refused.empty()) continue;
    const auto same = std::ranges::find(found, row.refused, &RefusedRows::reason);
    if (same == found.end()) {
      found.push_back({row.refused, {row.line}});
    } else {
      same->lines.push_back(row.line);
    }
  }
  return found;
}

std::vector<MeasuredError> measured_errors_of(const std::vector<ValidatedTable>& tables) {
  std::vector<MeasuredError> errors;
  for (const ValidatedTable& table : tables) {
    for (std::size_t i = 0; i < kNumQuantities; ++i) {
      std::set<Told> told;
      for (const std::size_t index : rows_with(table, i, true)) {
        const ValidatedRow& row = table.rows[index];
        if (!row.tensors_fit || !row.has_band) continue;
        add_error(table, i, row.setting, row.quantities.at(i), told, errors);
        RunSetting without = row.setting;
        without.software = "none";
        add_error(table, i, without, row.without_framework.at(i), told, errors);
      }
    }
  }
  return errors;
}

std::string first_difference(const std::string& in_file, const std::string& today) {
  std::istringstream before(in_file);
  std::istringstream now(today);
  for (int number = 1;; ++number) {
    std::string line_before;
    std::string line_now;
    const bool has_before = static_cast<bool>(std::getline(before, line_before));
    const bool has_now = static_cast<bool>(std::getline(now, line_now));
    if (!has_before && !has_now) return {};
    if (has_before == has_now && line_before == line_now) continue;
    return fmt::format("line {} is \"{}\" and would be \"{}\"", number, line_before, line_now);
  }
}

}  // namespace shardsim
