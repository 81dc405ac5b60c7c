#include "scenarios/confined_reading.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "scenarios/scenario_error.hpp"

namespace shardsim {

namespace {

namespace fs = std::filesystem;

// None: every file may be read. It is set before threads begin, and stays while they read.
std::optional<std::vector<fs::path>> allowed_folders;

bool is_below(const fs::path& file, const fs::path& folder) {
  const auto [end_of_folder, in_file] =
      std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  return end_of_folder == folder.end() && in_file != file.end();
}

}  // namespace

ConfinedReading::ConfinedReading(const std::vector<std::string>& folders) {
  std::vector<fs::path> real;
  for (const std::string& folder : folders) {
    std::error_code error;
    fs::path path = fs::canonical(folder, error);
    if (!error) real.push_back(std::move(path));
  }
  allowed_folders = std::move(real);
}

ConfinedReading::~ConfinedReading() { allowed_folders.reset(); }

bool may_read(const std::string& path, ProblemList& problems) {
  if (!allowed_folders) return true;
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  const bool is_allowed =
      !error && std::ranges::any_of(*allowed_folders, [&real](const fs::path& folder) {
        return is_below(real, folder);
      });
  if (!is_allowed) {
    problems.add_file("E0008", "", "a scenario of a page may not read this file",
                      "put it below the folder of --folder, and name it from there; without "
                      "--folder no file is read");
  }
  return is_allowed;
}

}  // namespace shardsim
