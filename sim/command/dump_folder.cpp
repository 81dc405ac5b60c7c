#include "sim/command/dump_folder.hpp"

#include <ostream>
#include <system_error>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/source_text.hpp"
#include "sim/console/whole_file.hpp"
#include "sim/console/write_text.hpp"

namespace shardsim {

namespace {

namespace fs = std::filesystem;

constexpr const char* kLeaveOut = ", or leave --dump-state out";
constexpr std::size_t kShownPath = 200;

std::string shown(const fs::path& path) {
  return "\"" + printable(path.string(), kShownPath) + "\"";
}

// Keeps the files of two runs apart, and overwrites nothing.
void require_new_or_empty(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(path, error)) {
    throw UsageError("E0956", "cannot dump the state to " + shown(path) + ": it is not a folder",
                     "name a new or an empty folder");
  }
  if (!fs::is_empty(path, error) || error) {
    throw UsageError("E0956", "cannot dump the state to " + shown(path) + ": it is not empty",
                     "name a new folder, or empty this one");
  }
}

}  // namespace

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
    throw UsageError("E0953", "a run without real tensors has no values that could be dumped",
                     std::string("use --set execution.tensors=real") + kLeaveOut);
  }
  if (arguments.process.on_processes()) {
    throw UsageError(
        "E0954", "the state of real processes is not dumped",
        std::string("leave --backend out: virtual ranks compute the same values") + kLeaveOut);
  }
  if (arguments.explore.is_asked() || arguments.explore.shrink) {
    throw UsageError(
        "E0954", "a search through schedules is many runs, and has no one state",
        std::string("run the scenario without --explore, --replay and --shrink") + kLeaveOut);
  }
  require_new_or_empty(*arguments.dump_state);
  require_writable(fs::path(*arguments.dump_state) / "step", true,
                   "choose another folder with --dump-state");
  return DumpFolder(*arguments.dump_state);
}

}  // namespace shardsim
