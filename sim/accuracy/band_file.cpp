#include "sim/accuracy/band_file.hpp"

#include <cmath>
#include <set>
#include <sstream>
#include <tuple>

#include <fmt/format.h>

namespace shardsim {

namespace {

using Told = std::tuple<std::string, std::string, std::int64_t, double, double>;

void add(const ValidatedTable& table, std::size_t quantity, const RunSetting& setting,
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

std::vector<MeasuredError> measured_errors_of(const std::vector<ValidatedTable>& tables) {
  std::vector<MeasuredError> errors;
  for (const ValidatedTable& table : tables) {
    for (std::size_t i = 0; i < kNumQuantities; ++i) {
      std::set<Told> told;
      for (const std::size_t index : rows_with(table, i, true)) {
        const ValidatedRow& row = table.rows[index];
        if (!row.tensors_fit) continue;
        add(table, i, row.setting, row.quantities.at(i), told, errors);
        const RunSetting without{row.setting.device, "none", row.setting.ranks};
        add(table, i, without, row.without_framework.at(i), told, errors);
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
