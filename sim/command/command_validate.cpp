#include <algorithm>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/json_value.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/suggest.hpp"
#include "sim/accuracy/ratchet.hpp"
#include "sim/accuracy/table_mapping.hpp"
#include "sim/accuracy/validated_table.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/output_paths.hpp"
#include "sim/console/progress.hpp"
#include "sim/console/whole_file.hpp"
#include "sim/run/band/measured_errors.hpp"

namespace shardsim {

namespace {

namespace fs = std::filesystem;

struct ValidateArguments {
  std::vector<std::string> tables;  // Names of mappings, or paths that end in ".json"; all.
  std::string folder;               // With mappings and ratchet.json; empty: tests/validation.
  std::string html;                 // The file for the page; empty: none.
  bool sample = false;              // Some rows of each table, as its mapping says.
  bool json = false;
  bool quiet = false;
  bool ratchet = false;        // Fail if a figure is worse than in ratchet.json.
  bool write_ratchet = false;  // Write the figures to ratchet.json.
  std::string write_band;      // The file for the errors that bands are made from; none.
  std::string check_band;      // A file that must hold today's errors; none.
};

constexpr const char* kRatchet = "ratchet.json";

// In a checkout: the folder beside that of the presets.
fs::path folder_of(const ValidateArguments& arguments) {
  if (!arguments.folder.empty()) return arguments.folder;
  return (fs::path(builtin_preset_directories().front()) / "../tests/validation")
      .lexically_normal();
}

bool is_path(const std::string& table) { return fs::path(table).extension() == ".json"; }

std::vector<std::string> tables_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".json" && it->path().filename() != kRatchet) {
      names.push_back(it->path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> mapping_paths(const ValidateArguments& arguments, const fs::path& folder) {
  const bool only_paths = !arguments.tables.empty() &&
                          std::all_of(arguments.tables.begin(), arguments.tables.end(), is_path);
  const std::vector<std::string> known =
      only_paths ? std::vector<std::string>() : tables_in(folder);
  if (!only_paths && known.empty()) {
    throw UsageError("E0931", fmt::format("there are no tables in {}", folder.string()),
                     "name the folder with --folder: it holds a JSON file for each table");
  }
  std::vector<std::string> paths;
  for (const std::string& table : arguments.tables.empty() ? known : arguments.tables) {
    if (!is_path(table) && std::find(known.begin(), known.end(), table) == known.end()) {
      const std::string near = nearest(table, known);
      throw UsageError(
          "E0920", fmt::format("there is no table \"{}\"", table),
          near.empty() ? "tables are " + one_of_list(known) : "write \"" + near + "\"");
    }
    paths.push_back(is_path(table) ? table : (folder / (table + ".json")).string());
  }
  return paths;
}

// Returns the exit code.
int hold_ratchet(const ValidateArguments& arguments, const fs::path& path,
                 const std::vector<ValidatedTable>& tables, std::ostream& err) {
  if (arguments.write_ratchet) {
    RatchetFigures figures;
    if (fs::exists(path)) figures = read_ratchet(path.string());
    set_figures(figures, arguments.sample, tables);
    write_text(path, ratchet_text(figures), err);
  }
  if (!arguments.ratchet) return 0;
  const std::vector<std::string> worse =
      became_worse(read_ratchet(path.string()), arguments.sample, tables);
  for (const std::string& line : worse) err << "worse: " << line << "\n";
  if (worse.empty()) return 0;
  err << fmt::format(
      "{} of the figures of {} do not hold; docs/guide/validation.md says what to "
      "do\n",
      worse.size(), path.string());
  return static_cast<int>(ExitCode::check_failed);
}

bool is_about_bands(const ValidateArguments& arguments) {
  return !arguments.write_band.empty() || !arguments.check_band.empty();
}

void require_all_rows(const ValidateArguments& arguments) {
  if (!is_about_bands(arguments) || (arguments.tables.empty() && !arguments.sample)) return;
  throw UsageError("E0933", "error bands are made from all rows of all tables",
                   "leave out the names of tables and --sample");
}

// Returns the exit code.
int hold_band(const ValidateArguments& arguments, const std::vector<ValidatedTable>& tables,
              std::ostream& err) {
  if (!is_about_bands(arguments)) return 0;
  const std::string text = measured_errors_text(measured_errors_of(tables));
  if (!arguments.write_band.empty()) write_text(arguments.write_band, text, err);
  if (arguments.check_band.empty()) return 0;
  const std::string in_file = read_regular_file(arguments.check_band, JsonLimits{}.max_bytes);
  const std::string difference = first_difference(in_file, text);
  if (difference.empty()) return 0;
  err << fmt::format("{} is not what `shardsim validate --write-band` gives today: {}\n",
                     arguments.check_band, difference);
  return static_cast<int>(ExitCode::check_failed);
}

void add_validate_options(CLI::App& verb, ValidateArguments& arguments) {
  verb.add_option("table", arguments.tables, "Tables (all); a path ending in .json is your own");
  verb.add_option("--folder", arguments.folder, "Folder of the tables (tests/validation)");
  verb.add_option("--html", arguments.html, "Write a page that plots predicted against measured");
  verb.add_flag("--sample", arguments.sample, "Use some rows of each table: seconds, not minutes");
  verb.add_flag("--json", arguments.json, "Print one JSON object with every row");
  verb.add_flag("-q,--quiet", arguments.quiet, "Print no progress");
  verb.add_flag("--ratchet", arguments.ratchet, "Fail if a figure is worse than ratchet.json says");
  verb.add_flag("--write-ratchet", arguments.write_ratchet, "Write the figures to ratchet.json");
  verb.add_option("--write-band", arguments.write_band,
                  "Write the errors of all rows, the source of plans' error bands");
  verb.add_option("--check-band", arguments.check_band,
                  "Fail if such a file differs from today's errors");
}

// Checks paths before tables that take minutes, not after them. The ratchet is read and rewritten.
void check_paths(const ValidateArguments& arguments, const std::vector<TableMapping>& mappings,
                 const fs::path& ratchet) {
  std::vector<PathInUse> read;
  for (const TableMapping& mapping : mappings) {
    read.push_back({"the mapping of a table", mapping.path});
    read.push_back({"a table", mapping.table.source->name});
  }
  std::vector<PathInUse> written;
  if (!arguments.html.empty()) written.push_back({"--html", arguments.html});
  if (!arguments.write_band.empty()) written.push_back({"--write-band", arguments.write_band});
  if (arguments.write_ratchet) written.push_back({"the ratchet", ratchet});
  require_outputs(read, written);
}

// `shardsim validate [TABLE...]`: predictions against published measurements. Returns 0, or 1 if
// a figure is worse than the ratchet's, or the file of errors is another. Throws Error for tables,
// mappings and files that are wrong: E0920 (no such table), E0931 (a folder without tables), E0933
// (errors of some rows only), E0901 (a file cannot be written).
int command_validate(const ValidateArguments& arguments, const Console& console) {
  require_all_rows(arguments);
  const fs::path folder = folder_of(arguments);
  // All mappings are read before the first run, so that errors are reported at once.
  std::vector<TableMapping> mappings;
  for (const std::string& path : mapping_paths(arguments, folder)) {
    mappings.push_back(read_table_mapping(path));
  }
  check_paths(arguments, mappings, folder / kRatchet);
  Progress progress(console.err, !arguments.quiet);
  std::vector<ValidatedTable> tables;
  for (const TableMapping& mapping : mappings) {
    tables.push_back(validate_table(
        mapping, arguments.sample ? mapping.sample_stride : 1, [&progress] { progress.tick(); },
        is_about_bands(arguments)));
  }
  progress.done();
  console.out << (arguments.json ? validation_json(tables) : validation_text(tables));
  if (!arguments.html.empty()) write_text(arguments.html, validation_html(tables), console.err);
  const int band = hold_band(arguments, tables, console.err);
  return std::max(band, hold_ratchet(arguments, folder / kRatchet, tables, console.err));
}

}  // namespace

Verb validate_verb() {
  return with_arguments<ValidateArguments>(
      {.name = "validate",
       .summary = "Compare predictions with published measurements",
       .group = VerbGroup::measure,
       .examples = {{"shardsim validate --sample", "some rows of every published table"},
                    {"shardsim validate --html page.html", "plots of predicted against measured"}}},
      add_validate_options, command_validate);
}

}  // namespace shardsim
