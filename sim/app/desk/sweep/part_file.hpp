#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "sim/app/desk/sweep/point_row.hpp"

// Where a shard keeps its finished points: DIR/part-i-of-n.ndjson, a header and then one line per
// point in the order in which they ended. A line is there whole or not at all: it is appended with
// one write, and what a crash may leave of the last one is dropped by whoever writes next.
namespace shardsim {

struct KeptRow {
  std::size_t point = 0;
  std::string key;
  std::string status;
  std::uint64_t offset = 0;  ///< Of its line in the file.
  std::size_t length = 0;    ///< Without the newline.
  bool is_final = true;      ///< As PartLine's.
};

struct PartContents {
  std::filesystem::path path;
  PartHeader header;  ///< The last one; all are of one sweep.
  std::vector<KeptRow> rows;
  std::uint64_t whole_bytes = 0;  ///< Up to the end of the last whole line.
  std::size_t num_damaged = 0;    ///< Whole lines that are none of ours.
  bool torn = false;              ///< Whether a piece of a line follows.
};

/// Also while somebody appends. Throws UsageError for a file that cannot be read or is none of ours
/// (E1309), and for headers of several sweeps (E1310). A file without one whole line has an empty
/// header.
[[nodiscard]] PartContents read_part(const std::filesystem::path& path);

/// Throws UsageError (E1310) unless both are of one sweep and version.
void require_same_sweep(const PartHeader& found, const std::filesystem::path& where,
                        const PartHeader& wanted, const std::string& wanted_by);

/// All parts in a folder, by name; none if there is no such folder.
[[nodiscard]] std::vector<std::filesystem::path> parts_in(const std::filesystem::path& folder);

[[nodiscard]] std::filesystem::path part_path(const std::filesystem::path& folder,
                                              std::size_t shard, std::size_t num_shards);

/// The part that this process writes: no other may, until it is closed.
class PartFile {
 public:
  /// Makes folder and file as needed, drops a torn line, and writes the header where it is new.
  /// Throws UsageError: E1311 where another process has it, E1312 where it cannot be written.
  /// `err`: for a note where the file system knows no locks.
  PartFile(const std::filesystem::path& path, const PartHeader& header, std::ostream& err);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  /// Appends a whole line, with one write. It outlives this process at once, and the machine with
  /// the next sync(), which is now and then.
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
