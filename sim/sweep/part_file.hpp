#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/kernel/descriptor.hpp"

#include "sim/sweep/point_row.hpp"

// The finished points of a shard: DIR/part-i-of-n.ndjson, a header and then one line per point in
// the order in which they ended. A line is complete or missing: it is appended with one write, and
// the next writer drops the torn line that a crash may leave.
namespace shardsim {

struct KeptRow {
  std::size_t point = 0;
  std::string key;
  std::string status;
  std::uint64_t offset = 0;  ///< The offset of its line in the file.
  std::size_t length = 0;    ///< Without the newline.
  bool is_final = true;      ///< As PartLine's.
};

struct PartContents {
  std::filesystem::path path;
  PartHeader header;  ///< The last one; all belong to one sweep.
  std::vector<KeptRow> rows;
  std::uint64_t whole_bytes = 0;  ///< Up to the end of the last whole line.
  std::size_t num_damaged = 0;    ///< Complete lines of another format.
  bool torn = false;              ///< Whether a torn line follows.
};

/// It may be called while another process appends. Throws UsageError for a file that cannot be read
/// or is no part file (E1309), and for headers of several sweeps (E1310). A file without one
/// complete line has an empty header.
[[nodiscard]] PartContents read_part(const std::filesystem::path& path);

[[nodiscard]] std::filesystem::path part_path(const std::filesystem::path& folder,
                                              std::size_t shard, std::size_t num_shards);

/// The part that this process writes: no other process may, until it is closed.
class PartFile {
 public:
  /// Makes folder and file as needed, drops a torn line, and writes the header if it is new. Throws
  /// UsageError: E1311 if another process has it, E1312 if it cannot be written. `err`: for a note
  /// if the file system has no locks.
  PartFile(const std::filesystem::path& path, const PartHeader& header, std::ostream& err);

  /// Appends a complete line, with one write. It survives this process at once. It survives a crash
  /// of the machine after the next sync(), which is made now and then.
  void append(const std::string& line);
  void sync();

 private:
  void lock(std::ostream& err);
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path path_;
  Descriptor file_;  // Its end is that of the lock.
  int unsynced_ = 0;
};

/// All finished points of a folder, from all processes.
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
