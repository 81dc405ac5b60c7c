#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "strategies/checkpoint/file_system.hpp"

// A file system in memory that can stop at any call, and knows what a machine that loses power
// would still find: bytes that were synced, and names whose folder was synced.
namespace shardsim::test {

/// Thrown when the machine stops. No exception of the product's, so nothing there may catch it.
struct MachineStopped {};

/// How much is left of changes that were never synced.
enum class Survival {
  nothing,     ///< None of them: the power went.
  everything,  ///< All of them: only the process was killed.
  some,        ///< Any of them, in any order, files torn: what file systems allow themselves.
};

class MemoryFileSystem : public FileSystem {
 public:
  MemoryFileSystem();

  std::map<std::string, int> opens;  ///< For reading, by path.
  /// Reads that began or ended outside the file.
  std::int64_t reads_outside = 0;

  // Faults. Calls are counted from 1, over all files.
  std::int64_t calls = 0;
  std::int64_t stop_at = 0;              ///< The call in which the machine stops; a write is torn.
  std::int64_t fail_at = 0;              ///< The call that fails,
  int fail_with = 0;                     ///< and its error number,
  bool keeps_failing = false;            ///< with all calls after it.
  std::size_t longest_write = SIZE_MAX;  ///< Bytes that one write takes.

  /// The machine comes up again. `seed` decides where `some` survives.
  void restart(Survival survival, std::uint64_t seed = 0);
  /// A copy that shares nothing, with no faults set.
  [[nodiscard]] std::unique_ptr<MemoryFileSystem> copy() const;

  [[nodiscard]] std::string read_file(const std::string& path) const;
  /// Replaces a file as if it had always been so.
  void write_file(const std::string& path, const std::string& text);
  /// All paths of files, sorted.
  [[nodiscard]] std::vector<std::string> all_files() const;

  void make_folder(const std::string& path) override;
  std::unique_ptr<OutputFile> create(const std::string& path) override;
  std::unique_ptr<InputFile> open(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void sync_folder(const std::string& path) override;
  std::vector<std::string> list(const std::string& path) override;
  void remove(const std::string& path) override;
  void remove_folder(const std::string& path) override;

  struct Node;
  /// Counts a call, and stops or fails in it if that is its turn; `torn` runs before stopping.
  void call(FileOperation operation, const std::string& path,
            const std::function<void()>& torn = {});

 private:
  [[nodiscard]] std::shared_ptr<Node> find(const std::string& path, FileOperation operation) const;
  [[nodiscard]] std::shared_ptr<Node> folder_of(const std::string& path,
                                                FileOperation operation) const;

  std::shared_ptr<Node> root_;
};

}  // namespace shardsim::test
