#include "sim/command/preset_table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/units.hpp"
#include "scenarios/load.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/scenario_error.hpp"
#include "scenarios/source_text.hpp"
#include "sim/command/preset_page.hpp"

namespace shardsim {

namespace {

constexpr double kBytesInGib = 1024.0 * 1024.0 * 1024.0;
constexpr double kGbInTb = 1e3;

struct ModelRow {
  PresetInfo preset;
  ModelSpec model;
  std::string source;
};

struct SystemRow {
  PresetInfo preset;
  SystemSpec system;
  std::string source;  // That of its peak.
};

struct PresetRows {
  std::vector<ModelRow> models;
  std::vector<SystemRow> systems;
  std::vector<std::string> left_out;
};

// A number of samples that every machine's GPUs divide.
Scenario scenario_on(const std::string& preset) {
  const std::string text = fmt::format(
      R"({{"schema_version": 1, "model": "gpt2", "system": {{"preset": {}, "nodes": 1}},
          "training": {{"global_batch_size": 9216}}}})",
      name_in_json(preset));
  return load_scenario_text(text, "system");
}

std::string words_of_problem(const PresetInfo& preset, const Problem& problem) {
  const std::string place = problem.line > 0 && problem.file == preset.path
                                ? fmt::format(":{}:{}", problem.line, problem.column)
                                : "";
  return fmt::format("{}{} is not listed: {}{}{}", printable(preset.path, kWholeText), place,
                     problem.message, problem.help.empty() ? "" : "; ", problem.help);
}

std::string source_of(const std::vector<NumberSource>& sources, std::string_view field) {
  const auto found = std::ranges::find(sources, field, &NumberSource::field);
  return found == sources.end() ? "" : found->source;
}

void add_row(PresetRows& rows, const PresetInfo& preset) {
  if (preset.folder == "models") {
    ModelRow row{preset, preset_model(preset.name), ""};
    row.source = row.model.source;
    rows.models.push_back(std::move(row));
    return;
  }
  const Scenario scenario = scenario_on(preset.name);
  rows.systems.push_back(
      {preset, scenario.system, source_of(scenario.sources, "system.device.peak_tflops.bf16")});
}

// A folder of the user may hold other files, too.
PresetRows read_rows(PresetKinds kinds) {
  const char* const unasked = kinds == PresetKinds::models    ? "systems"
                              : kinds == PresetKinds::systems ? "models"
                                                              : "";
  PresetRows rows;
  for (const PresetInfo& preset : list_presets_of(kCurrentFolder)) {
    if (preset.folder == unasked) continue;
    try {
      add_row(rows, preset);
    } catch (const ScenarioError& error) {
      if (!preset.is_own) throw;
      rows.left_out.push_back(words_of_problem(preset, error.problems().front()));
    }
  }
  return rows;
}

// The first document of several; its place within a repository is in `presets NAME`.
std::string first_source(const std::string& source) {
  std::size_t end = source.size();
  for (const std::string_view stop : {"; ", ", ", " at "}) {
    end = std::min(end, source.find(stop));
  }
  return source.substr(0, end);
}

std::string peak_words(const SystemSpec& system, DType dtype) {
  const double peak = system.device.peak_tflops.of(dtype);
  return peak == 0.0 ? "-" : format_count(std::lround(peak));
}

double gb_per_s_of_domain(const SystemSpec& system) {
  return system.pair_gb_per_s > 0 ? static_cast<double>(system.pair_gb_per_s)
                                  : static_cast<double>(system.intra_node.bandwidth_gb_per_s);
}

std::string domain_words(const SystemSpec& system) {
  if (system.gpus_per_node == 1) return "1";
  return fmt::format("{} x {:.4g}{}", format_count(system.gpus_per_node),
                     gb_per_s_of_domain(system), system.pair_gb_per_s > 0 ? " a pair" : "");
}

double memory_gib(const SystemSpec& system) {
  return static_cast<double>(system.device.memory_bytes) / kBytesInGib;
}

// The document that a row is from.
template <class Row>
std::string origin_of_row(const Row& row) {
  return row.preset.is_own ? "your own, " + printable(row.preset.path) : first_source(row.source);
}

std::string models_text(const std::vector<ModelRow>& rows) {
  std::string text = fmt::format("  {:<28}{:>9}{:>8}{:>8}{:>9}  {}\n", "model", "params", "layers",
                                 "width", "seq_len", "source");
  for (const ModelRow& row : rows) {
    text +=
        fmt::format("  {:<28}{:>9}{:>8}{:>8}{:>9}  {}\n", printable(row.preset.name),
                    format_amount(static_cast<double>(num_parameters(row.model)), Digits::three),
                    row.model.num_layers, format_count(row.model.hidden_size),
                    format_count(row.model.seq_len), origin_of_row(row));
  }
  return text;
}

std::string systems_text(const std::vector<SystemRow>& rows) {
  std::string text =
      "  Peaks in dense TFLOP/s, memory in GiB, its bandwidth in TB/s, GPUs x links in GB/s per "
      "GPU\n";
  text += fmt::format("  {:<18}{:>7}{:>7}{:>8}{:>9}{:>8}  {:<18}{:>6}  {:<24}  {}\n", "system",
                      "bf16", "fp8", "fp4", "memory", "TB/s", "GPUs", "out", "device", "source");
  for (const SystemRow& row : rows) {
    const SystemSpec& system = row.system;
    text += fmt::format(
        "  {:<18}{:>7}{:>7}{:>8}{:>9}{:>8}  {:<18}{:>6}  {:<24}  {}\n", printable(row.preset.name),
        peak_words(system, DType::bf16), peak_words(system, DType::fp8_e4m3),
        peak_words(system, DType::fp4_e2m1), fmt::format("{:.4g}", memory_gib(system)),
        fmt::format("{:.3g}", system.device.memory_bandwidth_gb_per_s / kGbInTb),
        domain_words(system),
        fmt::format("{:.4g}", static_cast<double>(system.inter_node.bandwidth_gb_per_s)),
        system.device.name, origin_of_row(row));
  }
  return text;
}

nlohmann::ordered_json json_of(const ModelRow& row) {
  return {{"name", row.preset.name},
          {"parameters", num_parameters(row.model)},
          {"num_layers", row.model.num_layers},
          {"hidden_size", row.model.hidden_size},
          {"seq_len", row.model.seq_len},
          {"source", row.source}};
}

nlohmann::ordered_json json_of(const SystemRow& row) {
  const SystemSpec& system = row.system;
  nlohmann::ordered_json peaks = nlohmann::ordered_json::object();
  for (const auto& [name, dtype] :
       {std::pair("bf16", DType::bf16), std::pair("fp8", DType::fp8_e4m3),
        std::pair("fp4", DType::fp4_e2m1)}) {
    const double peak = system.device.peak_tflops.of(dtype);
    if (peak > 0.0) peaks[name] = peak;
  }
  return {
      {"name", row.preset.name},
      {"device", std::string(system.device.name)},
      {"gpus_per_node", static_cast<std::int64_t>(system.gpus_per_node)},
      {"peak_tflops", std::move(peaks)},
      {"memory_gib", memory_gib(system)},
      {"memory_bandwidth_gb_per_s", static_cast<double>(system.device.memory_bandwidth_gb_per_s)},
      {"intra_node_gb_per_s", gb_per_s_of_domain(system)},
      {"inter_node_gb_per_s", static_cast<double>(system.inter_node.bandwidth_gb_per_s)},
      {"source", row.source}};
}

template <class Rows>
nlohmann::ordered_json list_of(const Rows& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& row : rows) {
    list.push_back(json_of(row));
    if (row.preset.is_own) list.back()["own_file"] = row.preset.path;
  }
  return list;
}

}  // namespace

PresetListing preset_table(PresetKinds kinds) {
  PresetRows rows = read_rows(kinds);
  std::string text;
  if (kinds != PresetKinds::systems) text += models_text(rows.models);
  if (kinds == PresetKinds::all) text += "\n";
  if (kinds != PresetKinds::models) text += systems_text(rows.systems);
  return {std::move(text), std::move(rows.left_out)};
}

PresetListing preset_json(PresetKinds kinds) {
  PresetRows rows = read_rows(kinds);
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  if (kinds != PresetKinds::systems) all["models"] = list_of(rows.models);
  if (kinds != PresetKinds::models) all["systems"] = list_of(rows.systems);
  return {all.dump(2) + "\n", std::move(rows.left_out)};
}

}  // namespace shardsim
