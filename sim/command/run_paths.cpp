#include <filesystem>
#include <ostream>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "backends/rendezvous/launch_environment.hpp"

#include "scenarios/source_text.hpp"
#include "sim/command/command_run.hpp"
#include "sim/console/output_paths.hpp"
#include "sim/console/whole_file.hpp"
#include "sim/explore/explore_run.hpp"
#include "sim/real/run_ranks.hpp"

namespace shardsim {

namespace {

namespace fs = std::filesystem;

void require_named(const std::optional<std::string>& path, const char* option,
                   const char* what = "file") {
  if (!path || !path->empty()) return;
  throw UsageError(
      "E0912", fmt::format("\"{}\" names no {}: its value is empty", option, what),
      fmt::format("name a {}, or leave the option out; is a variable of the shell unset?", what));
}

// Whether this process writes outputs. Other ranks of a launcher write nothing, and their machines
// may lack the folder.
bool may_report(const RunArguments& arguments) {
  if (!arguments.process.on_processes()) return true;
  const std::optional<LaunchedRank> launched = find_launched_rank();
  return !launched || launched->rank == 0;
}

[[noreturn]] void refuse_dump(const char* code, const char* message, const std::string& fix) {
  throw UsageError(code, message, fix + ", or leave --dump-state out");
}

// Keeps the files of two runs apart, and overwrites nothing.
void require_new_or_empty(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(path, error)) {
    throw UsageError("E0956",
                     "cannot dump the state to " + quoted_path(path) + ": it is not a folder",
                     "name a new or an empty folder");
  }
  if (!fs::is_empty(path, error) || error) {
    throw UsageError("E0956", "cannot dump the state to " + quoted_path(path) + ": it is not empty",
                     "name a new folder, or empty this one");
  }
}

constexpr const char* kOtherwise = "choose another with --out, or with the option that names it";

std::vector<PathInUse> files_written(const RunArguments& arguments, OutputSpec output) {
  std::vector<PathInUse> named;
  if (arguments.report) named.push_back({"the report (--report)", *arguments.report});
  if (arguments.trace) named.push_back({"the trace (--trace)", *arguments.trace});
  if (arguments.report) output.report.clear();
  if (arguments.trace) output.trace.clear();
  std::vector<PathInUse> written = paths_written(output, arguments.out_directory);
  written.insert(written.end(), named.begin(), named.end());
  return written;
}

}  // namespace

fs::path report_path(const RunArguments& arguments, const OutputSpec& output) {
  return arguments.report ? fs::path(*arguments.report)
                          : fs::path(arguments.out_directory) / output.report;
}

fs::path trace_path(const RunArguments& arguments, const OutputSpec& output) {
  return arguments.trace ? fs::path(*arguments.trace)
                         : fs::path(arguments.out_directory) / output.trace;
}

void check_run_paths(const RunArguments& arguments, const Experiment& experiment) {
  require_named(arguments.report, "--report");
  require_named(arguments.trace, "--trace");
  require_named(arguments.record_decisions, "--record-decisions");
  require_named(arguments.replay_decisions, "--replay-decisions");
  require_named(arguments.dump_state, "--dump-state", "folder");
  std::vector<PathInUse> read = paths_read(experiment.scenario().files, arguments.file);
  if (arguments.replay_decisions) {
    read.push_back({"the record that is replayed", *arguments.replay_decisions});
  }
  const fs::path folder = arguments.out_directory;
  std::vector<PathInUse> written = files_written(arguments, experiment.scenario().output);
  if (arguments.record_decisions) written.push_back({"the record", *arguments.record_decisions});
  if (arguments.explore.shrink && !arguments.explore.shrunk_directory.empty()) {
    written.push_back(
        {"the shrunk scenario", fs::path(arguments.explore.shrunk_directory) / kShrunkFile});
  }
  if (may_report(arguments)) {
    for (const PathInUse& output : written) {
      require_writable(output.path, true, kOtherwise);
    }
  }
  // Its own check is dump_folder_of's: it must be a new or an empty folder.
  if (arguments.dump_state) {
    written.push_back({"the state (--dump-state)", *arguments.dump_state});
  }
  // Written only if a run fails, so a read-only folder is no reason not to begin.
  if (arguments.process.on_processes()) {
    written.push_back({"the record of the last calls", folder / kFlightRecordFile});
  }
  require_apart(read, written);
  require_distinct(written);
}

StateFileWriter DumpFolder::writer() {
  return [this](const std::string& name, const std::string& bytes) {
    write_complete(path_ / name, bytes, "choose another folder with --dump-state");
    ++num_files_;
  };
}

void DumpFolder::tell(std::ostream& err) const {
  err << fmt::format("wrote {} file{} to {}\n", num_files_, num_files_ == 1 ? "" : "s",
                     printable(path_.string(), kShownPath));
}

std::optional<DumpFolder> dump_folder_of(const RunArguments& arguments,
                                         const Experiment& experiment) {
  if (!arguments.dump_state) return std::nullopt;
  if (!experiment.world().has_data) {
    refuse_dump("E0953", "a run without real tensors has no values that could be dumped",
                "use --set execution.tensors=real");
  }
  if (arguments.process.on_processes()) {
    refuse_dump("E0954", "the state of real processes is not dumped",
                "leave --backend out: virtual ranks compute the same values");
  }
  if (arguments.explore.is_asked() || arguments.explore.shrink) {
    refuse_dump("E0954", "a search through schedules is many runs, and has no one state",
                "run the scenario without --explore, --replay and --shrink");
  }
  require_new_or_empty(*arguments.dump_state);
  require_writable(fs::path(*arguments.dump_state) / "step", true,
                   "choose another folder with --dump-state");
  return DumpFolder(*arguments.dump_state);
}

}  // namespace shardsim
