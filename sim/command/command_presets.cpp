#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "sim/kernel/error.hpp"

#include "reports/json_writer.hpp"
#include "scenarios/field.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/source_text.hpp"
#include "sim/command/verbs.hpp"

namespace shardsim {

namespace {

std::vector<PresetInfo> known_presets() {
  std::vector<PresetInfo> presets = list_builtin_presets();
  if (presets.empty()) {
    throw UsageError("E0913", "there are no presets",
                     no_presets_help(builtin_preset_directories()));
  }
  return presets;
}

void list_presets(std::ostream& out) {
  for (const PresetInfo& preset : known_presets()) {
    out << (preset.folder == "models" ? "model   " : "system  ") << printable(preset.name) << "\n";
  }
}

void show_preset(const std::string& name, std::ostream& out) {
  std::string known;
  for (const PresetInfo& preset : known_presets()) {
    if (preset.name == name) {
      out << preset_text(preset);
      return;
    }
    known += (known.empty() ? "" : ", ") + preset.name;
  }
  throw UsageError("E0902", "there is no preset \"" + name + "\"", "presets are " + known);
}

}  // namespace

Verb presets_verb() {
  // Users who have not read the help write "presets show NAME".
  const auto words = std::make_shared<std::vector<std::string>>();
  return {.name = "presets",
          .summary = "List models and systems, or show one",
          .add_options =
              [words](CLI::App& app) {
                app.add_option("name", *words,
                               "The preset to show, every number with its source; \"show NAME\" is "
                               "the same");
              },
          .run =
              [words](const Console& console) {
                std::vector<std::string> names = *words;
                if (names.size() > 1 && names.front() == "show") names.erase(names.begin());
                if (names.size() > 1) {
                  throw UsageError("E0915", "\"" + names.back() + "\" is one word too many",
                                   "\"shardsim presets --help\" shows what there is");
                }
                if (names.empty()) {
                  list_presets(console.out);
                } else {
                  show_preset(names.front(), console.out);
                }
                return 0;
              },
          .group = VerbGroup::start,
          .examples = {{"shardsim presets", "all models and systems"},
                       {"shardsim presets dgx-h100", "one, every number with its source"}}};
}

Verb schema_verb() {
  const auto which = std::make_shared<std::string>("scenario");
  return {.name = "schema",
          .summary = "Print a JSON Schema",
          .add_options =
              [which](CLI::App& app) {
                app.add_option("which", *which, "scenario or result")
                    ->check(CLI::IsMember({"scenario", "result"}));
              },
          .run =
              [which](const Console& console) {
                console.out << (*which == "result" ? result_schema() : scenario_schema());
                return 0;
              },
          .group = VerbGroup::start,
          .examples = {{"shardsim schema > shardsim-scenario-1.schema.json",
                        "for the \"$schema\" of a scenario: editors complete keys"},
                       {"shardsim schema result", "of what --json prints"}}};
}

}  // namespace shardsim
