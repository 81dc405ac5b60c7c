#include "scenarios/formats/import.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/kernel/error.hpp"

#include "scenarios/presets.hpp"
#include "scenarios/source_text.hpp"
#include "scenarios/suggest.hpp"

namespace shardsim {

namespace {

using ImportJson = nlohmann::ordered_json;

constexpr std::array kSections = {"model", "system", "parallelism", "training", "execution"};

ImportJson json_of(const FieldValue& value) {
  return std::visit([](const auto& held) { return ImportJson(held); }, value);
}

ImportJson json_of(const std::vector<ImportItem>& items) {
  ImportJson list = ImportJson::array();
  for (const ImportItem& item : items) {
    ImportJson object = ImportJson::object();
    for (const auto& [key, value] : item) object[key] = json_of(value);
    list.push_back(std::move(object));
  }
  return list;
}

struct FateWord {
  Fate fate;
  const char* word;
};

// In the order of the table.
constexpr std::array kFates = {FateWord{Fate::taken, "taken"}, FateWord{Fate::derived, "derived"},
                               FateWord{Fate::measured, "measured"},
                               FateWord{Fate::ignored, "ignored"},
                               FateWord{Fate::needs_you, "needs you"}};

std::string assignment(const std::string& path, const FieldValue& value) {
  return path + " = " + text_of_value(value);
}

constexpr std::array kTorchTypes = {NamePair{"bfloat16", "bf16"}, NamePair{"float16", "fp16"},
                                    NamePair{"float32", "fp32"}};

constexpr std::string_view kPrefix = "dgx-";
constexpr const char* kAssumedGpu = "h100";

std::string preset_of_gpu(const std::string& gpu, const std::vector<std::string>& systems) {
  if (const auto name = system_of_gpu(gpu, systems)) return *name;
  std::vector<std::string> kinds;
  for (const std::string& name : systems) {
    if (name.starts_with(kPrefix)) kinds.push_back(name.substr(kPrefix.size()));
  }
  throw UsageError("E1351", "there is no GPU \"" + gpu + "\" among the presets",
                   "write " + one_of_list(kinds) + ", or name a machine with --system");
}

std::string import_preset(const ImportRequest& request, Import& import) {
  if (!request.system.empty()) {
    import.take({"--system", request.system}, "system.preset", request.system);
    return request.system;
  }
  const std::vector<std::string> systems = preset_names("systems", request.beside());
  if (!request.gpu.empty()) {
    const std::string preset = preset_of_gpu(request.gpu, systems);
    import.derive({"--gpu", request.gpu}, "system.preset", preset);
    return preset;
  }
  const std::string preset = preset_of_gpu(kAssumedGpu, systems);
  import.assume("the machine", "system.preset", preset, "give --gpu KIND or --system PRESET");
  return preset;
}

void import_nodes(std::int64_t gpus, std::int64_t per_node, const std::string& preset,
                  Import& import) {
  if (gpus < per_node) {
    import.derive({"GPUs", std::to_string(gpus)}, "system.gpus_per_node", gpus,
                  fmt::format("a part of one node of {}", per_node));
    import.derive({"GPUs", std::to_string(gpus)}, "system.nodes", std::int64_t{1});
    return;
  }
  if (gpus % per_node != 0) {
    throw UsageError("E1351",
                     fmt::format("{} GPUs do not fill nodes of {} ({})", gpus, per_node, preset),
                     fmt::format("use --gpus {} or {}, or another --system", gpus - gpus % per_node,
                                 gpus - gpus % per_node + per_node));
  }
  import.derive({"GPUs", std::to_string(gpus)}, "system.nodes", gpus / per_node);
}

}  // namespace

std::string text_of_value(const FieldValue& value) { return json_of(value).dump(); }

void Import::write(const std::string& path, const FieldValue& value) {
  if (fields_.insert_or_assign(path, value).second) order_.push_back(path);
}

void Import::take(const ForeignValue& theirs, const std::string& path, const FieldValue& ours) {
  write(path, ours);
  rows_.push_back({Fate::taken, theirs, assignment(path, ours), path});
}

void Import::derive(const ForeignValue& theirs, const std::string& path, const FieldValue& ours,
                    const std::string& why) {
  write(path, ours);
  rows_.push_back(
      {Fate::derived, theirs, assignment(path, ours) + (why.empty() ? "" : ": " + why), path});
}

void Import::assume(const std::string& what, const std::string& path, const FieldValue& assumed,
                    const std::string& why) {
  write(path, assumed);
  rows_.push_back(
      {Fate::needs_you, {what, ""}, assignment(path, assumed) + " assumed: " + why, path});
}

void Import::derive_list(const ForeignValue& theirs, const std::string& path,
                         const std::vector<ImportItem>& items) {
  lists_[path] = items;
  order_.push_back(path);
  rows_.push_back({Fate::derived, theirs, path + " = " + json_of(items).dump(), path});
}

std::string Import::scenario_json() const {
  ImportJson document = {
      {"$schema", "scenario.schema.json"}, {"schema_version", 1}, {"name", name_}};
  for (const char* section : kSections) {
    for (const std::string& path : order_) {
      const std::size_t dot = path.find('.');
      if (path.substr(0, dot) != section) continue;
      const auto list = lists_.find(path);
      document[section][path.substr(dot + 1)] =
          list != lists_.end() ? json_of(list->second) : json_of(fields_.at(path));
    }
  }
  return document.dump(2, ' ', false, ImportJson::error_handler_t::replace) + "\n";
}

std::string Import::table() const {
  constexpr std::size_t kWidest = 44;
  std::size_t width = 0;
  std::size_t value_width = 0;
  for (const ImportRow& row : rows_) {
    width = std::max(width, std::min(row.theirs.name.size(), kWidest));
    value_width = std::max(value_width, printable(row.theirs.written, kWidest).size());
  }
  std::string text;
  for (const auto& [fate, word] : kFates) {
    for (const ImportRow& row : rows_) {
      if (row.fate != fate) continue;
      constexpr std::size_t kWholeSentence = 400;
      text += fmt::format("  {:9}  {:{}}  {:{}}  {}\n", word, printable(row.theirs.name, kWidest),
                          width, printable(row.theirs.written, kWidest), value_width,
                          printable(row.ours, kWholeSentence));
    }
  }
  return text;
}

void refuse_or_warn(const std::vector<std::string>& inexpressible, const std::string& file,
                    bool approximate, Import& import) {
  if (inexpressible.empty()) return;
  if (!approximate) {
    throw UsageError("E1355",
                     fmt::format("{}: not supported: {}", file, fmt::join(inexpressible, "; ")),
                     "--approximate writes the nearest scenario and warns of each difference");
  }
  for (const std::string& each : inexpressible) import.warn({"not supported", ""}, each);
}

std::string type_of_torch(const std::string& theirs, const char* otherwise) {
  for (const NamePair& type : kTorchTypes) {
    if (theirs == type.theirs) return type.ours;
  }
  return otherwise;
}

std::int64_t import_system(const ImportRequest& request, const ForeignGpus& foreign,
                           Import& import) {
  const std::string preset = import_preset(request, import);
  const std::int64_t per_node =
      scenario_of_system(preset, {}, request.beside()).system.gpus_per_node;
  std::int64_t gpus = request.gpus > 0 ? request.gpus : foreign.count;
  if (request.gpus > 0 && foreign.count > 0 && request.gpus != foreign.count) {
    import.ignore({foreign.name, std::to_string(foreign.count)},
                  fmt::format("--gpus {} is given", request.gpus));
  }
  if (gpus == 0) {
    gpus = per_node;
    import.warn({"the number of GPUs", ""},
                fmt::format("one node of {} assumed: give --gpus N", gpus));
  }
  import_nodes(gpus, per_node, preset, import);
  return gpus;
}

void import_optimizer(const std::string& foreign, const std::string& theirs,
                      OptimizerAliases OptimizerNames::*framework, Import& import) {
  const OptimizerRule* rule = optimizer_called(theirs, framework);
  if (rule == nullptr) {
    import.warn({foreign, theirs}, "not modelled: AdamW stands in for it");
    rule = &optimizer_rule(default_optimizer());
  }
  import.derive({foreign, theirs}, "training.optimizer", std::string(rule->name));
}

}  // namespace shardsim
