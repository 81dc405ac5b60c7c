#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <utility>

#include "sim/app/command_run.hpp"

namespace shardsim {

/// The folder of --dump-state.
class DumpFolder {
 public:
  explicit DumpFolder(std::filesystem::path path) : path_(std::move(path)) {}

  /// Writes files into it, which it makes with the first. This must outlive it.
  [[nodiscard]] StateFileWriter writer();
  /// "wrote 6 files to FOLDER".
  void tell(std::ostream& err) const;

 private:
  std::filesystem::path path_;
  int num_files_ = 0;
};

/// None if it is not asked for. Throws UsageError for what cannot be: of a run without real tensors
/// (E0953), of processes and of many schedules (E0954), into something that is not a new or empty
/// folder (E0956).
[[nodiscard]] std::optional<DumpFolder> dump_folder_of(const RunArguments& arguments,
                                                       const Scenario& scenario);

}  // namespace shardsim
