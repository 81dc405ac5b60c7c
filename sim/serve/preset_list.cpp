#include "sim/serve/preset_list.hpp"

#include <optional>
#include <vector>

#include <fmt/format.h>

#include "strategies/pipeline/schedule_row.hpp"

#include "scenarios/json_value.hpp"
#include "scenarios/presets.hpp"

#include "sim/serve/answer.hpp"

namespace shardsim {

namespace {

// A number, plain or as {"value": 8, "source": "..."}; null where there is none.
std::string number_of(const JsonValue& preset, const char* key) {
  const JsonValue* value = preset.find(key);
  if (value != nullptr && value->is_object()) value = value->find("value");
  const std::optional<double> number = value == nullptr ? std::nullopt : value->number();
  return number ? fmt::format("{}", *number) : "null";
}

std::string title_of(const JsonValue& preset, const std::string& name) {
  const JsonValue* const title = preset.find("name");
  return title != nullptr && title->is_string() ? title->string() : name;
}

std::string item_json(const PresetInfo& info, const JsonValue& preset) {
  return fmt::format("{{{}, {}, {}, {}, {}}}", json_member("name", json_text(info.name)),
                     json_member("title", json_text(title_of(preset, info.name))),
                     json_member("seq_len", number_of(preset, "seq_len")),
                     json_member("num_experts", number_of(preset, "num_experts")),
                     json_member("gpus_per_node", number_of(preset, "gpus_per_node")));
}

std::string list_json(const std::string& folder) {
  std::vector<std::string> items;
  for (const PresetInfo& info : list_presets(folder, builtin_preset_directories())) {
    const SourceText source{info.path, preset_text(info), false, true};
    ProblemList problems;
    const std::optional<JsonValue> preset = parse_json(source, problems);
    if (preset && preset->is_object()) items.push_back(item_json(info, *preset));
  }
  return fmt::format("[{}]", fmt::join(items, ",\n"));
}

std::string schedules_json() {
  return "[" + schedules_that([](const ScheduleRow&) { return true; }, ", ", "\"") + "]";
}

}  // namespace

std::string preset_list_json() {
  return fmt::format("{{{},\n{},\n{}}}\n", json_member("models", list_json("models")),
                     json_member("systems", list_json("systems")),
                     json_member("schedules", schedules_json()));
}

}  // namespace shardsim
