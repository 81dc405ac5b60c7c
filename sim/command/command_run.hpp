#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/console/parallel.hpp"
#include "sim/console/whole_file.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/explore/scenario_explorer.hpp"
#include "sim/real/process_options.hpp"
#include "sim/run/run.hpp"

// `shardsim run`, and the paths that its options name: they are checked before the run, as is the
// folder of --dump-state.
namespace shardsim {

struct RunArguments {
  std::string file;                    ///< kStandardInput: `text` was read from standard input.
  std::optional<std::string> text;     ///< The scenario itself; `file` is only its name then.
  std::vector<std::string> overrides;  ///< "a.b=value" each.
  std::string out_directory = ".";     ///< Files named in the scenario are written below it.
  /// Files to write and to read, both relative to the current folder.
  std::optional<std::string> record_decisions;
  std::optional<std::string> replay_decisions;
  std::optional<std::string> dump_state;  ///< A folder, relative to the current one.
  /// Files to write, relative to the current folder; they win over those of the scenario's
  /// `output`.
  std::optional<std::string> report;
  std::optional<std::string> trace;
  int jobs = default_jobs();  ///< Draws of faults at a time.
  bool json = false;
  bool annotations = false;  ///< Problems once more, as annotations of GitHub Actions.
  bool junit = false;        ///< Checks and expectations as test cases, instead of the summary.
  bool assumptions = false;  ///< All assumptions of the result, below the summary.
  bool quiet = false;
  bool color = false;
  std::size_t width = 100;   ///< Columns of the summary, from 80 to 100.
  std::string next_command;  ///< The suggestion after success; empty: found from the result.
  ProcessOptions process;
  ExploreArguments explore;
};

/// `shardsim FILE`: loads, runs, prints the summary or the JSON, writes the files the scenario asks
/// for. Returns the exit code. Throws Error. `hooks`: for tests; progress is always reported.
int command_run(const RunArguments& arguments, std::ostream& out, std::ostream& err,
                RunHooks hooks = {});

/// The scenario's files below --out, those of --report and --trace where they say.
[[nodiscard]] std::filesystem::path report_path(const RunArguments& arguments,
                                                const OutputSpec& output);
[[nodiscard]] std::filesystem::path trace_path(const RunArguments& arguments,
                                               const OutputSpec& output);

/// Refuses, before a run, outputs that cannot be written after it. Throws UsageError: E0912 for an
/// option without a name, E0901 for a file that cannot be written. E0910 is for a file that would
/// replace an input of the run or collide with another output.
void check_run_paths(const RunArguments& arguments, const Experiment& experiment);

/// The folder of --dump-state.
class DumpFolder {
 public:
  explicit DumpFolder(std::filesystem::path path) : path_(std::move(path)) {}

  /// Writes files into the folder, which the first file creates. This must outlive the writer.
  [[nodiscard]] StateFileWriter writer();
  /// "wrote 6 files to FOLDER".
  void tell(std::ostream& err) const;

 private:
  std::filesystem::path path_;
  int num_files_ = 0;
};

/// Returns none if no dump is requested. Throws UsageError for runs without real tensors (E0953),
/// for processes and for many schedules (E0954). A folder that is neither new nor empty is refused,
/// too (E0956).
[[nodiscard]] std::optional<DumpFolder> dump_folder_of(const RunArguments& arguments,
                                                       const Experiment& experiment);

}  // namespace shardsim
