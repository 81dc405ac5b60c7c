#pragma once

#include <string>
#include <vector>

#include "tests/temporary_folder.hpp"

namespace shardsim::test {

/// A table with its mapping in a folder of its own: a small model on 1 to 8 GPUs of a DGX A100.
class OwnTable {
 public:
  OwnTable();

  /// Replaces a part, which must be there once, of mapping or table.
  void edit_mapping(const std::string& part, const std::string& by);
  void edit_table(const std::string& part, const std::string& by);

  [[nodiscard]] std::string mapping() const { return folder_ / "small.json"; }
  [[nodiscard]] std::string table() const { return folder_ / "small.csv"; }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }
  [[nodiscard]] const std::string& folder() const { return folder_.path(); }
  /// "validate --folder FOLDER MORE...".
  [[nodiscard]] std::vector<std::string> words(const std::vector<std::string>& more = {}) const;

 private:
  TemporaryFolder folder_;
};

}  // namespace shardsim::test
