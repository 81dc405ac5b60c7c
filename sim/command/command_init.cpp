#include <algorithm>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/describe.hpp"
#include "scenarios/json_value.hpp"
#include "scenarios/load.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/read_file.hpp"
#include "sim/command/starter.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/shell_word.hpp"
#include "sim/console/whole_file.hpp"

namespace shardsim {

namespace {

namespace fs = std::filesystem;

struct InitArguments {
  std::string from;  // A preset, or the path of a scenario to begin with; empty: neither.
  std::string file = "scenario.json";  // "-": standard output.
  StarterAsk ask;
  bool quiet = false;
};

constexpr const char* kStandardOutput = "-";
constexpr std::int64_t kMostGpus = 1 << 20;

bool is_preset(const std::string& folder, const std::string& name) {
  const std::vector<PresetInfo> presets = list_builtin_presets();
  return std::any_of(presets.begin(), presets.end(), [&](const PresetInfo& preset) {
    return preset.folder == folder && preset.name == name;
  });
}

void refuse_choices_beside_file(const InitArguments& arguments) {
  const StarterAsk plain;
  const StarterAsk& ask = arguments.ask;
  if (ask.model == plain.model && ask.system == plain.system && ask.gpus == plain.gpus) return;
  throw UsageError("E1383", "--from a scenario takes everything from that file",
                   "leave --model, --gpu and --gpus out, and use --set when you run it");
}

std::string starter_of(const InitArguments& arguments) {
  StarterAsk ask = arguments.ask;
  if (is_preset("models", arguments.from)) {
    ask.model = arguments.from;
  } else if (is_preset("systems", arguments.from)) {
    ask.system = arguments.from;
  } else if (!arguments.from.empty()) {
    refuse_choices_beside_file(arguments);
    return read_regular_file(arguments.from, JsonLimits{}.max_bytes);
  }
  require_model_preset(ask.model);
  ask.system = system_preset(ask.system);
  return starter_text(ask);
}

void write_new(const fs::path& path, const std::string& text, bool quiet, std::ostream& err) {
  write_complete(path, text, "choose another with -o");
  if (!quiet) tell_written(path, err);
}

void add_init_options(CLI::App& app, InitArguments& arguments) {
  app.add_option("--from", arguments.from, "A preset, or a scenario to begin with");
  app.add_option("-o,--output", arguments.file, "The file; - prints it")->capture_default_str();
  app.add_option("--model", arguments.ask.model, "A preset of \"shardsim presets\"")
      ->capture_default_str();
  app.add_option("--gpu", arguments.ask.system, "Which: h100, b200, or a preset of systems")
      ->capture_default_str();
  app.add_option("--gpus", arguments.ask.gpus, "How many; one node's if not given")
      ->check(CLI::Range(std::int64_t{1}, kMostGpus));
  app.add_flag("-q,--quiet", arguments.quiet, "Print nothing unless something is wrong");
}

// `shardsim init`: writes a scenario that loads, and the schema that editors use to complete keys.
// It never overwrites: throws UsageError (E1384) if the file exists.
int command_init(const InitArguments& arguments, std::ostream& out, std::ostream& err) {
  const bool print = arguments.file == kStandardOutput;
  const fs::path path = print ? fs::path("scenario.json") : fs::path(arguments.file);
  if (!print && fs::exists(path)) {
    throw UsageError("E1384", fmt::format("{} already exists", path.string()),
                     "choose another name with -o, or move it away");
  }
  const std::string text = starter_of(arguments);
  // The file must load for a beginner; for a scenario, the files that it names must exist as well.
  static_cast<void>(load_scenario_text(text, path.string()));
  if (print) {
    out << text;
    return 0;
  }
  write_new(path, text, arguments.quiet, err);
  const fs::path schema = path.parent_path() / kSchemaFile;
  const bool named = text.find(kSchemaFile) != std::string::npos;
  if (named && !fs::exists(schema)) write_new(schema, scenario_schema(), arguments.quiet, err);
  if (!arguments.quiet) err << "Next: " << command_line(path.string(), {}) << "\n";
  return 0;
}

}  // namespace

Verb init_verb() {
  const auto arguments = std::make_shared<InitArguments>();
  return {.name = "init",
          .summary = "Write a first scenario, with comments",
          .add_options = [arguments](CLI::App& app) { add_init_options(app, *arguments); },
          .run =
              [arguments](const Console& console) {
                return command_init(*arguments, console.out, console.err);
              },
          .wants_json = nullptr,
          .group = VerbGroup::start,
          .examples = {{"shardsim init", "scenario.json: Llama 3 8B on 8 H100"},
                       {"shardsim init --model llama3-70b --gpus 128 --gpu h100 -o plan.json",
                        "another"},
                       {"shardsim init --from scenarios/quickstart.json -o mine.json",
                        "a copy of a scenario that loads"}}};
}

}  // namespace shardsim
