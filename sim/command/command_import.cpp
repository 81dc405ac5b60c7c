#include <algorithm>
#include <array>
#include <filesystem>
#include <ostream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/formats/import.hpp"
#include "scenarios/load.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/scenario.hpp"
#include "scenarios/source_text.hpp"
#include "scenarios/suggest.hpp"
#include "sim/command/import_layout.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/output_format.hpp"
#include "sim/console/output_paths.hpp"
#include "sim/console/whole_file.hpp"

#include "sim/programs/import_torch.hpp"

namespace shardsim {

namespace {

struct ImportKind {
  const char* name;
  void (*run)(const ImportRequest& request, Import& import);
};

constexpr std::array kImportKinds = {
    ImportKind{"hf", import_hf},
    ImportKind{"megatron", import_megatron},
    ImportKind{"deepspeed", import_deepspeed},
    ImportKind{"torchtitan", import_torchtitan},
    ImportKind{"schedule", import_schedule},
    ImportKind{"torch", import_torch},
};

std::vector<std::string> import_kind_names() {
  std::vector<std::string> names;
  for (const ImportKind& kind : kImportKinds) names.emplace_back(kind.name);
  return names;
}

const ImportKind& import_kind_of(const std::string& name) {
  const auto* const found = std::ranges::find(kImportKinds, name, &ImportKind::name);
  if (found != kImportKinds.end()) return *found;
  throw UsageError("E1359", "there is no import format \"" + name + "\"",
                   "the first word is " + one_of_list(import_kind_names()));
}

// Problems refer to the imported scenario: it is checked as it will be read, beside its file.
Scenario load_imported(const ImportRequest& request, const std::string& json) {
  const std::string name = request.output.empty() ? "imported.json" : request.output;
  return load_scenario_text(json, name);
}

void check_paths(const ImportRequest& request) {
  if (request.output.empty()) return;
  std::vector<PathInUse> read;
  for (const std::string& file : request.files) read.push_back({"what is imported", file});
  if (!request.model.empty()) read.push_back({"the model's file", request.model});
  require_outputs(read, {{"the scenario", request.output}}, "choose another with -o");
}

std::int64_t gpus_of_import(const ImportRequest& request, const std::string& preset) {
  return request.gpus > 0 ? request.gpus
                          : scenario_of_system(preset, {}, request.beside()).system.gpus_per_node;
}

// `shardsim import KIND FILE...`: writes a scenario that loads, and on `err` a table with the fate
// of every foreign name. Throws Error: nothing is written then.
int command_import(const ImportRequest& request, const Console& console) {
  const ImportKind& kind = import_kind_of(request.kind);
  check_paths(request);
  Import import;
  import.set_name(std::filesystem::path(request.files.front()).filename().string() + ", " +
                  request.kind);
  if (request.plan && std::string_view(kind.name) != "hf") {
    throw UsageError("E1349", "--plan is for hf: a " + request.kind + " file has a layout",
                     "leave --plan out, and search with shardsim plan");
  }
  kind.run(request, import);
  if (request.plan) {
    const std::string preset = import.text("system.preset");
    plan_imported(request, preset, gpus_of_import(request, preset), import, console.err);
  }
  const std::string json = import.scenario_json();
  console.err << fmt::format("{} of {}\n", request.kind, printable(request.files.front(), 200))
              << import.table();
  const Scenario scenario = load_imported(request, json);
  tell_warnings(scenario.warnings, console.err);
  console.err << fmt::format("  {} parameters on {} GPUs\n", num_parameters(scenario.model),
                             scenario.system.ranks);
  if (request.output.empty()) {
    console.out << json;
  } else {
    write_text(request.output, json, console.err);
  }
  return 0;
}

void add_import_options(CLI::App& app, ImportRequest& request) {
  app.add_option("kind", request.kind, one_of_list(import_kind_names()))->required();
  app.add_option("file", request.files, "The file, or for torch the folder of records, to import")
      ->required();
  app.add_option("--model", request.model,
                 "A config.json or a model preset, if the file names no model");
  app.add_option("--gpus", request.gpus, "Number of GPUs")->check(CLI::Range(1, 1 << 20));
  app.add_option("--gpu", request.gpu, "GPU; h100 is the preset dgx-h100");
  app.add_option("--system", request.system, "A system preset, instead of --gpu");
  app.add_option("-o,--out", request.output, "File to write (standard output)");
  app.add_flag("--plan", request.plan, "Search the layout (hf): the fastest found in 20 s");
  app.add_flag("--approximate", request.approximate,
               "Write the nearest scenario if something is not supported");
}

}  // namespace

Verb import_verb() {
  return with_arguments<ImportRequest>(
      {.name = "import",
       .summary = "Make a scenario from another program's configuration or log",
       .examples = {{"shardsim import hf config.json --gpus 64 --gpu h100 -o plan.json",
                     "a model of Hugging Face, fully sharded"},
                    {"shardsim import hf config.json --gpus 64 --gpu h100 --plan -o plan.json",
                     "and in the fastest layout that a search finds"},
                    {"shardsim import megatron train.log -o plan.json",
                     "what a run said of itself"}}},
      add_import_options, command_import);
}

}  // namespace shardsim
