#include <algorithm>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "sim/kernel/error.hpp"

#include "reports/json_writer.hpp"
#include "scenarios/field.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/source_text.hpp"
#include "scenarios/suggest.hpp"
#include "sim/command/machine_page.hpp"
#include "sim/command/preset_page.hpp"
#include "sim/command/preset_table.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/output_format.hpp"

namespace shardsim {

namespace {

struct PresetsArguments {
  std::vector<std::string> words;
  bool page = false;
  bool prices = false;
  bool names = false;
  bool json = false;

  [[nodiscard]] int num_tables() const { return int{page} + int{prices} + int{names}; }
};

struct SchemaArguments {
  std::string which = "scenario";
};

std::vector<PresetInfo> known_presets() {
  std::vector<PresetInfo> presets = list_presets_of(kCurrentFolder);
  if (presets.empty()) {
    throw UsageError("E0913", "there are no presets",
                     no_presets_help(builtin_preset_directories()));
  }
  return presets;
}

void list_presets(const std::vector<PresetInfo>& presets, std::ostream& out) {
  for (const PresetInfo& preset : presets) {
    out << (preset.folder == "models" ? "model   " : "system  ") << printable(preset.name) << "\n";
  }
}

// The preset of this name, or the machine of this GPU, as plan's --gpu finds it.
const PresetInfo& preset_called(const std::string& name, const std::vector<PresetInfo>& presets) {
  const auto called = [&presets](const std::string& wanted) {
    return std::ranges::find(presets, wanted, &PresetInfo::name);
  };
  if (const auto found = called(name); found != presets.end()) return *found;
  if (const auto machine = system_of_gpu(name, preset_names("systems", kCurrentFolder))) {
    return *called(*machine);
  }
  std::vector<std::string> names = {"models", "systems"};
  for (const PresetInfo& preset : presets) names.push_back(preset.name);
  const std::vector<std::string> meant = near_names(name, names);
  const std::string all = "\"shardsim presets\" lists ";
  throw UsageError(
      "E0902", "there is no preset \"" + name + "\"",
      meant.empty() ? all + "all" : "write " + one_of_list(meant) + "; " + all + "the rest");
}

std::optional<PresetKinds> kinds_in(const std::vector<std::string>& names) {
  if (names.empty()) return PresetKinds::all;
  if (names.front() == "models") return PresetKinds::models;
  if (names.front() == "systems") return PresetKinds::systems;
  return std::nullopt;
}

// Users who have not read the help write "presets show NAME".
int command_presets(const PresetsArguments& arguments, const Console& console) {
  std::vector<std::string> names = arguments.words;
  if (names.size() > 1 && names.front() == "show") names.erase(names.begin());
  if (names.size() > 1) {
    throw UsageError("E0915", "\"" + names.back() + "\" is one word too many",
                     "\"shardsim presets --help\" lists its options");
  }
  if (arguments.num_tables() + static_cast<int>(names.size()) > 1) {
    throw UsageError("E0915", "only one thing is printed: a preset, or one of the tables",
                     "leave out all but one of NAME, --page, --prices and --names");
  }
  if (arguments.json && arguments.num_tables() > 0) {
    throw UsageError("E0915", "--json is for the lists of presets, and for one of them",
                     "leave out --json, or --page, --prices and --names");
  }
  const std::vector<PresetInfo> presets = known_presets();
  const std::optional<PresetKinds> kinds = kinds_in(names);
  if (arguments.page) {
    console.out << preset_page();
  } else if (arguments.prices) {
    console.out << price_page();
  } else if (arguments.names) {
    list_presets(presets, console.out);
  } else if (kinds) {
    const PresetListing listing = arguments.json ? preset_json(*kinds) : preset_table(*kinds);
    console.out << listing.text;
    tell_warnings(listing.left_out, console.err);
  } else {
    console.out << preset_text(preset_called(names.front(), presets));  // It is JSON.
  }
  return 0;
}

}  // namespace

Verb presets_verb() {
  return with_arguments<PresetsArguments>(
      {.name = "presets",
       .summary = "List models and systems, or show one",
       .group = VerbGroup::start,
       .examples = {{"shardsim presets", "all models and systems, a line each"},
                    {"shardsim presets systems --json", "one of the two lists, for programs"},
                    {"shardsim presets dgx-h100", "one, every number with its source"},
                    {"shardsim presets --page", "what of each model is modelled, and what is not"},
                    {"shardsim presets --prices",
                     "what of each machine is priced from measurements"}}},
      [](CLI::App& app, PresetsArguments& arguments) {
        app.add_option(
            "name", arguments.words,
            "The preset to show with its sources (a GPU: its machine), or a list: models, systems");
        app.add_flag("--json", arguments.json, "Print the lists as one JSON object");
        app.add_flag("--page", arguments.page,
                     "Print a table in Markdown: what of each model is modelled, and what is not");
        app.add_flag("--prices", arguments.prices,
                     "Print a table in Markdown: what of each machine is priced from measurements, "
                     "from a neighbour, and from its data sheet");
        app.add_flag("--names", arguments.names, "Print kinds and names alone, for scripts");
      },
      command_presets);
}

Verb schema_verb() {
  return with_arguments<SchemaArguments>(
      {.name = "schema",
       .summary = "Print a JSON Schema",
       .group = VerbGroup::start,
       .examples = {{"shardsim schema > shardsim-scenario-1.schema.json",
                     "for the \"$schema\" of a scenario: editors complete keys"},
                    {"shardsim schema result", "of what --json prints"}}},
      [](CLI::App& app, SchemaArguments& arguments) {
        app.add_option("which", arguments.which, "scenario or result")
            ->check(CLI::IsMember({"scenario", "result"}));
      },
      [](const SchemaArguments& arguments, const Console& console) {
        console.out << (arguments.which == "result" ? result_schema() : scenario_schema());
        return 0;
      });
}

}  // namespace shardsim
