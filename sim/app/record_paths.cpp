#include "sim/app/record_paths.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/source_text.hpp"

namespace shardsim {

namespace {

namespace fs = std::filesystem;

std::string shown(const fs::path& path) { return "\"" + printable(path.string(), 200) + "\""; }

void require_named(const std::optional<std::string>& path, const char* option) {
  if (!path || !path->empty()) return;
  throw UsageError("E0912", fmt::format("\"{}\" names no file: its value is empty", option),
                   "name a file, or leave the option out; is a variable of the shell unset?");
}

fs::path whole_path(const fs::path& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  const fs::path canonical = fs::weakly_canonical(absolute, error);
  return error ? absolute.lexically_normal() : canonical;
}

bool is_within(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

// One file under two names, or a file that has the other one below it.
bool collide(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  if (fs::equivalent(a, b, ignored)) return true;  // Links, too.
  const fs::path first = whole_path(a);
  const fs::path second = whole_path(b);
  return is_within(first, second) || is_within(second, first);
}

[[noreturn]] void refuse_unwritable(const fs::path& record, const std::string& why) {
  throw UsageError("E0901", "cannot write the record " + shown(record) + ": " + why,
                   "name a file in a folder that can be written");
}

void require_writable(const fs::path& record) {
  std::error_code error;
  const fs::file_status status = fs::status(record, error);
  if (fs::is_directory(status) || !record.has_filename()) refuse_unwritable(record, "a folder");
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    refuse_unwritable(record, "not a regular file");
  }
  // The nearest folder that is there; those below it are made.
  fs::path folder = fs::absolute(record, error).parent_path();
  while (folder.has_relative_path() && !fs::exists(fs::symlink_status(folder, error))) {
    folder = folder.parent_path();
  }
  if (!fs::is_directory(folder, error)) {
    refuse_unwritable(record, shown(folder) + " is not a folder");
  }
}

}  // namespace

void check_record_paths(const RunArguments& arguments, const Scenario& scenario) {
  require_named(arguments.record_decisions, "--record-decisions");
  require_named(arguments.replay_decisions, "--replay-decisions");
  if (!arguments.record_decisions) return;
  const fs::path record = *arguments.record_decisions;
  const auto require_apart = [&record](const fs::path& other, const char* what) {
    if (!collide(record, other)) return;
    throw UsageError("E0910", "the record " + shown(record) + " would replace " + what,
                     "name another file with --record-decisions");
  };
  require_apart(arguments.file, "the scenario");
  if (arguments.replay_decisions) {
    require_apart(*arguments.replay_decisions, "the record that is replayed");
  }
  const fs::path folder = arguments.out_directory;
  if (!scenario.output.result.empty()) {
    require_apart(folder / scenario.output.result, "output.result of the same run");
  }
  if (!scenario.output.trace.empty()) {
    require_apart(folder / scenario.output.trace, "output.trace of the same run");
  }
  require_writable(record);
}

}  // namespace shardsim
