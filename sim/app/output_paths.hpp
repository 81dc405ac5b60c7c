#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/scenario.hpp"

// What a command reads and what it writes are different files, by whatever names. What cannot end
// well is refused before anything runs, which may take long.
namespace shardsim {

struct PathInUse {
  std::string what;  ///< "the scenario", "output.result"
  std::filesystem::path path;
};

/// Throws UsageError (E0910) where a file that is written is one that is read, or lies below it:
/// by another spelling, a link or a second name, too. Pipes and devices are no files.
void require_apart(const std::vector<PathInUse>& read, const std::vector<PathInUse>& written);

/// Throws UsageError (E0910) where two files that are written are one, or one lies below the other.
void require_distinct(const std::vector<PathInUse>& written);

/// The files that a scenario was made from. `file`: its own ("-": standard input; empty: none).
[[nodiscard]] std::vector<PathInUse> paths_read(const Scenario& scenario, const std::string& file);

/// Of "run.csv" and "stages": "run.stages.csv", in the same folder.
[[nodiscard]] std::string table_beside(const std::string& csv, const std::string& table);

/// The files that a run of the scenario writes because it says so, below `folder`.
[[nodiscard]] std::vector<PathInUse> paths_written(const Scenario& scenario,
                                                   const std::filesystem::path& folder);

}  // namespace shardsim
