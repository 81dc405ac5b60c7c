#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

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

/// Throws UsageError (E1310) unless both have the same sweep and version.
void require_same_sweep(const PartHeader& found, const std::filesystem::path& where,
                        const PartHeader& wanted, const std::string& wanted_by);

/// All parts in a folder, by name; none if there is no such folder.
[[nodiscard]] std::vector<std::filesystem::path> parts_in(const std::filesystem::path& folder);

[[nodiscard]] std::filesystem::path part_path(const std::filesystem::path& folder,
                                              std::size_t shard, std::size_t num_shards);

/// The part that this process writes: no other process may, until it is closed.
class PartFile {
 public:
  /// Makes folder and file as needed, drops a torn line, and writes the header if it is new. Throws
  /// UsageError: E1311 if another process has it, E1312 if it cannot be written. `err`: for a note
  /// if the file system has no locks.
  PartFile(const std::filesystem::path& path, const PartHeader& header, std::ostream& err);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  /// Appends a complete line, with one write. It survives this process at once. It survives a crash
  /// of the machine after the next sync(), which is made now and then.
  void append(const std::string& line);
  void sync();

 private:
  void lock(std::ostream& err);
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path path_;
  int file_ = -1;
  int unsynced_ = 0;
};

}  // namespace shardsim
