#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/sweep/part_file.hpp"

// All finished points of a folder, from all processes.
namespace shardsim {

class PointIndex {
 public:
  /// Reads all parts. They must belong to one sweep: that of `wanted`, or, with null, that of the
  /// first (E1310).
  PointIndex(const std::filesystem::path& folder, const PartHeader* wanted);

  [[nodiscard]] const std::vector<PartContents>& parts() const { return parts_; }
  /// Whether a part has a final row of the point with this key; the last row of several counts.
  [[nodiscard]] bool has(std::size_t point, const std::string& key) const {
    return keys_.count({point, key}) > 0;
  }
  /// Points with a final row, ascending.
  [[nodiscard]] std::set<std::size_t> points() const;
  [[nodiscard]] std::size_t num_damaged() const;

  /// The lines of all points, ascending, each point once: the last of several rows in one file, and
  /// a final one before others. Throws UsageError (E1316) if final rows differ between files.
  void for_each_line(
      const std::function<void(const KeptRow& row, const std::string& line)>& take) const;

 private:
  std::vector<PartContents> parts_;
  std::set<std::pair<std::size_t, std::string>> keys_;
};

}  // namespace shardsim
