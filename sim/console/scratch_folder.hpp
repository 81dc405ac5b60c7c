#pragma once

#include <string>

namespace shardsim {

/// A folder for files that are of no use afterwards, below TMPDIR or /tmp. It is removed with all
/// that lies in it.
class ScratchFolder {
 public:
  /// Throws Error E0901.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace shardsim
