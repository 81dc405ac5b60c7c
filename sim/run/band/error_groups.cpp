#include "sim/run/band/error_groups.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "sim/hardware/architecture.hpp"

namespace shardsim {

namespace {

// "ampere" of "a100-sxm": devices of kernels are architectures' devices in small letters.
std::string_view generation_of(const RunSetting& setting) {
  std::string name = setting.device;
  for (char& each : name) each = static_cast<char>(std::toupper(static_cast<unsigned char>(each)));
  return architecture_of_device(name).name;
}

bool shares(const RunSetting& a, const RunSetting& b, const GroupLevel& level) {
  return (!level.experts || a.has_experts == b.has_experts) &&
         (!level.generation || generation_of(a) == generation_of(b)) &&
         (!level.software || a.software == b.software);
}

std::string generation_words(const RunSetting& setting) {
  std::string words = "on " + std::string(generation_of(setting));
  std::ranges::replace(words, '_', ' ');
  return words;
}

}  // namespace

MeasuredRows comparable_rows(const std::vector<MeasuredError>& all, const std::string& quantity,
                             const std::string& software) {
  const auto has_framework = [](const std::string& name) { return name != "none"; };
  MeasuredRows rows;
  for (const MeasuredError& row : all) {
    if (row.quantity == quantity &&
        has_framework(row.setting.software) == has_framework(software)) {
      rows.push_back(&row);
    }
  }
  return rows;
}

MeasuredRows without_table(const MeasuredRows& rows, const std::string& table) {
  MeasuredRows others;
  for (const MeasuredError* row : rows) {
    if (row->table != table) others.push_back(row);
  }
  return others;
}

std::vector<std::string> tables_of(const MeasuredRows& rows) {
  std::set<std::string> names;
  for (const MeasuredError* row : rows) names.insert(row->table);
  return {names.begin(), names.end()};
}

MeasuredRows rows_like(const MeasuredRows& rows, const RunSetting& setting, std::size_t level) {
  MeasuredRows found;
  for (const MeasuredError* row : rows) {
    if (shares(row->setting, setting, kGroupLevels.at(level))) found.push_back(row);
  }
  return found;
}

std::size_t level_of(const MeasuredRows& rows, const RunSetting& setting) {
  std::size_t level = 0;
  for (; level + 1 < kGroupLevels.size(); ++level) {
    const MeasuredRows like = rows_like(rows, setting, level);
    if (is_enough(like.size(), tables_of(like).size())) break;
  }
  return level;
}

std::string group_name(const RunSetting& setting, std::size_t level) {
  const GroupLevel& shared = kGroupLevels.at(level);
  if (!shared.experts) return "all models";
  std::string name = setting.has_experts ? "models with experts" : "dense models";
  if (shared.generation) name += " " + generation_words(setting);
  if (shared.software && setting.software != "none") name += " under " + setting.software;
  return name;
}

std::string dropped_words(const RunSetting& setting, std::size_t level) {
  if (level == 0) return {};
  const GroupLevel& shared = kGroupLevels.at(level);
  const GroupLevel& smaller = kGroupLevels.at(level - 1);
  if (smaller.software && !shared.software) return "under " + setting.software;
  if (smaller.generation && !shared.generation) return generation_words(setting);
  return setting.has_experts ? "with experts" : "without experts";
}

}  // namespace shardsim
