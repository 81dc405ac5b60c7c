#include "sim/command/command_init.hpp"

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/metric_rows.hpp"

#include "strategies/optimizer/optimizer.hpp"
#include "strategies/pipeline/schedule_row.hpp"

#include "scenarios/field.hpp"
#include "scenarios/json_value.hpp"
#include "scenarios/load.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/suggest.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/shell_word.hpp"
#include "sim/console/whole_file.hpp"

namespace shardsim {

namespace {

UsageError no_preset(const std::string& what, const std::string& name,
                     const std::vector<std::string>& known) {
  if (known.empty()) {
    return {"E0913", "there are no presets", no_presets_help(builtin_preset_directories())};
  }
  return {"E0902", fmt::format("there is no {} \"{}\"", what, name),
          help_for_preset(name, known, what + "s")};
}

// Reads a preset's file: the number alone, or with its source.
std::int64_t gpus_per_node(const std::string& system, const std::string& beside) {
  for (const PresetInfo& preset : list_presets_of(beside)) {
    if (preset.folder != "systems" || preset.name != system) continue;
    const SourceText text{preset.path, preset_text(preset), false, true};
    ProblemList problems;
    const std::optional<JsonValue> value = parse_json(text, problems);
    const JsonValue* number = value && value->is_object() ? value->find("gpus_per_node") : nullptr;
    if (number != nullptr && number->is_object()) number = number->find("value");
    const auto* whole = number == nullptr ? nullptr : std::get_if<std::int64_t>(&number->data);
    if (whole != nullptr && *whole > 0) return *whole;
  }
  throw UsageError("E0966", fmt::format("\"{}\" does not say how many GPUs a node has", system),
                   "choose another with --gpu");
}

constexpr const char* kTemplate =
    R"starter(// A scenario of shardsim: what one training step costs. Run it with: shardsim FILE
// Comments like these are allowed. Units are in the names of keys: _gb_per_s is 10^9 bytes per
// second, _gib 2^30 bytes, _us microseconds, _tflops 10^12 operations per second. Batches count
// sequences. Keys that are left out have the defaults of docs/guide/scenario-reference.md.
{{
  // Editors complete and explain keys by this file: shardsim schema > {schema}
  "$schema": "{schema}",
  "schema_version": 1,
  "name": "{model}, fully sharded, on {gpus} GPUs",

  // A preset is a file of numbers with their sources ("shardsim presets {model}"); what stands
  // beside "preset" wins, for example "seq_len": 4096 (tokens).
  "model": {{ "preset": "{model}" }},

  // {machine}
  "system": {{ "preset": "{system}", "nodes": {nodes}{per_node} }},

  // tp x pp x cp x dp_replicate x dp_shard = all GPUs; "auto" is what is left.
  "parallelism": {{
    "tp": 1,             // tensor: each layer is split; best within a node
    "pp": 1,             // pipeline: stages of layers; needs a "schedule", such as "{schedule}"
    "cp": 1,             // context: each sequence is split
    "dp_replicate": 1,   // replicas of everything
    "dp_shard": "auto",  // groups that share what zero_stage says
    "zero_stage": 3      // 0 nothing, 1 optimizer state, 2 gradients too, 3 parameters too (FSDP)
  }},

  "training": {{
    "global_batch_size": {gpus}, // sequences per step, of all GPUs together
    "micro_batch_size": 1,
    "precision": "bf16",
    "optimizer": "{optimizer}"
  }},

  // Shapes without numbers: a plan. "real" trains tiny models and proves that they are trained right.
  "execution": {{ "tensors": "meta", "steps": 1 }}

  // With these the file is a test: the exit code is 1 if one does not hold. A comma goes above.
  // "expect": [ {{ "metric": "{metric}", "op": ">=", "value": 0.4 }} ],
  // Files to write; the trace opens in https://ui.perfetto.dev
  // "output": {{ "trace": "step.pftrace" }}
}}
)starter";

namespace fs = std::filesystem;

struct InitArguments {
  std::string from;  // A preset, or the path of a scenario to begin with; empty: neither.
  std::string file = "scenario.json";  // "-": standard output.
  StarterAsk ask;
  bool quiet = false;
};

constexpr const char* kStandardOutput = "-";
constexpr std::int64_t kMostGpus = 1 << 20;

bool is_preset(const std::string& folder, const std::string& name, const std::string& beside) {
  const std::vector<std::string> known = preset_names(folder, beside);
  return std::find(known.begin(), known.end(), name) != known.end();
}

void refuse_choices_beside_file(const InitArguments& arguments) {
  const StarterAsk plain;
  const StarterAsk& ask = arguments.ask;
  if (ask.model == plain.model && ask.system == plain.system && ask.gpus == plain.gpus) return;
  throw UsageError("E0967", "--from a scenario takes everything from that file",
                   "leave --model, --gpu and --gpus out, and use --set when you run it");
}

std::string starter_of(const InitArguments& arguments) {
  StarterAsk ask = arguments.ask;
  ask.beside = fs::path(arguments.file).parent_path().string();
  if (is_preset("models", arguments.from, ask.beside)) {
    ask.model = arguments.from;
  } else if (is_preset("systems", arguments.from, ask.beside)) {
    ask.system = arguments.from;
  } else if (!arguments.from.empty()) {
    refuse_choices_beside_file(arguments);
    return read_regular_file(arguments.from, JsonLimits{}.max_bytes);
  }
  require_model_preset(ask.model, ask.beside);
  ask.system = system_preset(ask.system, ask.beside);
  return starter_text(ask);
}

void write_new(const fs::path& path, const std::string& text, bool quiet, std::ostream& err) {
  write_complete(path, text, "choose another with -o");
  if (!quiet) tell_written(path, err);
}

void add_init_options(CLI::App& app, InitArguments& arguments) {
  app.add_option("--from", arguments.from, "A preset, or a scenario to begin with");
  app.add_option("-o,--output", arguments.file, "File to write; - prints it")
      ->capture_default_str();
  app.add_option("--model", arguments.ask.model, "A model preset; \"shardsim presets\" lists them")
      ->capture_default_str();
  app.add_option("--gpu", arguments.ask.system, "GPU (h100, b200) or a system preset")
      ->capture_default_str();
  app.add_option("--gpus", arguments.ask.gpus, "Number of GPUs (one node)")
      ->check(CLI::Range(std::int64_t{1}, kMostGpus));
  app.add_flag("-q,--quiet", arguments.quiet, "Print nothing unless something is wrong");
}

// `shardsim init`: writes a scenario that loads, and the schema that editors use to complete keys.
// It never overwrites: throws UsageError (E0968) if the file exists.
int command_init(const InitArguments& arguments, const Console& console) {
  const bool print = arguments.file == kStandardOutput;
  const fs::path path = print ? fs::path("scenario.json") : fs::path(arguments.file);
  if (!print && fs::exists(path)) {
    throw UsageError("E0968", fmt::format("{} already exists", path.string()),
                     "choose another name with -o, or move it away");
  }
  const std::string text = starter_of(arguments);
  // The file must load for a beginner; for a scenario, the files that it names must exist as well.
  static_cast<void>(load_scenario_text(text, path.string()));
  if (print) {
    console.out << text;
    return 0;
  }
  write_new(path, text, arguments.quiet, console.err);
  const fs::path schema = path.parent_path() / kSchemaFile;
  const bool named = text.find(kSchemaFile) != std::string::npos;
  if (named && !fs::exists(schema)) {
    write_new(schema, scenario_schema(), arguments.quiet, console.err);
  }
  if (!arguments.quiet) console.err << "Next: " << command_line(path.string(), {}) << "\n";
  return 0;
}

}  // namespace

std::string system_preset(const std::string& kind, const std::string& beside) {
  const std::vector<std::string> names = preset_names("systems", beside);
  if (const auto name = system_of_gpu(kind, names)) return *name;
  throw no_preset("system", kind, names);
}

void require_model_preset(const std::string& name, const std::string& beside) {
  if (is_preset("models", name, beside)) return;
  throw no_preset("model", name, preset_names("models", beside));
}

std::string starter_text(const StarterAsk& ask) {
  const std::int64_t per_node = gpus_per_node(ask.system, ask.beside);
  const std::int64_t gpus = ask.gpus > 0 ? ask.gpus : per_node;
  if (gpus > per_node && gpus % per_node != 0) {
    throw UsageError(
        "E0966",
        fmt::format("{} GPUs do not fill nodes of {} with {} each", gpus, ask.system, per_node),
        fmt::format("ask for {} or {}", gpus / per_node * per_node,
                    (gpus / per_node + 1) * per_node));
  }
  const bool part = gpus < per_node;
  const std::int64_t nodes = part ? 1 : gpus / per_node;
  return fmt::format(
      kTemplate, fmt::arg("schema", kSchemaFile), fmt::arg("model", ask.model),
      fmt::arg("metric", metric::kMfu.name), fmt::arg("schedule", default_schedule().name),
      fmt::arg("optimizer", default_optimizer()), fmt::arg("system", ask.system),
      fmt::arg("gpus", gpus), fmt::arg("nodes", nodes),
      fmt::arg("per_node", part ? fmt::format(", \"gpus_per_node\": {}", gpus) : std::string()),
      fmt::arg("machine", part ? fmt::format("{} of the {} GPUs of a node.", gpus, per_node)
                               : fmt::format("{} x {} GPUs = {}.", nodes, per_node, gpus)));
}

Verb init_verb() {
  return with_arguments<InitArguments>(
      {.name = "init",
       .summary = "Write a first scenario, with comments",
       .group = VerbGroup::start,
       .examples = {{"shardsim init", "scenario.json: Llama 3 8B on 8 H100"},
                    {"shardsim init --model llama3-70b --gpus 128 --gpu h100 -o plan.json",
                     "another"},
                    {"shardsim init --from scenarios/quickstart.json -o mine.json",
                     "a copy of a scenario that loads"}}},
      add_init_options, command_init);
}

}  // namespace shardsim
