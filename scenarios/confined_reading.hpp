#pragma once

#include <string>
#include <vector>

// Scenarios of strangers may name files. While this lives, read_regular_file() reads only below its
// folders, wherever links and ".." lead.
namespace shardsim {

class ProblemList;

class ConfinedReading {
 public:
  /// Folders that do not exist allow nothing. It belongs to the whole process, so only one may
  /// live at a time, and it must live longer than all threads that read.
  explicit ConfinedReading(const std::vector<std::string>& folders);
  ~ConfinedReading();
  ConfinedReading(const ConfinedReading&) = delete;
  ConfinedReading& operator=(const ConfinedReading&) = delete;
};

/// Whether the file may be read; if not, the problem E0008. It does not tell whether there is one.
[[nodiscard]] bool may_read(const std::string& path, ProblemList& problems);

}  // namespace shardsim
