#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <utility>

#include "sim/command/command_run.hpp"
#include "sim/experiment/experiment.hpp"

// Paths that the options of a run name: checked before the run, and the folder of --dump-state.
namespace shardsim {

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
