#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "scenarios/scenario.hpp"

// The files that a command reads and writes must differ, under any name. Conflicts are refused
// before a run, which may take long.
namespace shardsim {

struct PathInUse {
  std::string what;  ///< "the scenario", "output.result"
  std::filesystem::path path;
};

/// Throws UsageError (E0910) if a written file is also read, or one lies below the other. Other
/// spellings, links and second names count, too. Pipes and devices are no files.
void require_apart(const std::vector<PathInUse>& read, const std::vector<PathInUse>& written);

/// Throws UsageError (E0910) if two written files are one file, or one lies below the other.
void require_distinct(const std::vector<PathInUse>& written);

/// Both, and that files can be written into folders that exist (E0901). `otherwise`: as in
/// require_writable().
void require_outputs(const std::vector<PathInUse>& read, const std::vector<PathInUse>& written,
                     const std::string& otherwise = "name another file");

/// The files from which a scenario was made: `read`, and its own ("-": standard input; empty:
/// none).
[[nodiscard]] std::vector<PathInUse> paths_read(const std::vector<FileRead>& read,
                                                const std::string& file);

/// The path of a table beside a CSV: "run.csv" and "stages" give "run.stages.csv".
[[nodiscard]] std::string table_beside(const std::string& csv, const std::string& table);

/// The files below `folder` that a run writes because the scenario's `output` names them.
[[nodiscard]] std::vector<PathInUse> paths_written(const OutputSpec& output,
                                                   const std::filesystem::path& folder);

}  // namespace shardsim
