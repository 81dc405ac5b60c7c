#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/app/desk/sweep/part_file.hpp"

// All finished points of a folder, whoever finished them.
namespace shardsim {

class PointIndex {
 public:
  /// Reads all parts. They must be of one sweep: that of `wanted`, or, with null, that of the first
  /// (E1310).
  PointIndex(const std::filesystem::path& folder, const PartHeader* wanted);

  [[nodiscard]] const std::vector<PartContents>& parts() const { return parts_; }
  /// Whether the point's row in a part, of several the last, is final and has this key.
  [[nodiscard]] bool has(std::size_t point, const std::string& key) const {
    return keys_.count({point, key}) > 0;
  }
  /// Points with a final row, ascending.
  [[nodiscard]] std::set<std::size_t> points() const;
  [[nodiscard]] std::size_t num_damaged() const;

  /// The lines of all points, ascending, each point once: of several rows in one file the last,
  /// and a final one before others. With final rows that differ between files, throws UsageError
  /// (E1316).
  void for_each_line(
      const std::function<void(const KeptRow& row, const std::string& line)>& take) const;

 private:
  std::vector<PartContents> parts_;
  std::set<std::pair<std::size_t, std::string>> keys_;
};

}  // namespace shardsim
