#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/checkpoint/checkpoint_error.hpp"
#include "strategies/checkpoint/chunk.hpp"
#include "strategies/checkpoint/file_system.hpp"
#include "strategies/checkpoint/manifest.hpp"

// Loading a checkpoint at any layout. Files are treated as hostile: whatever they hold ends in a
// CheckpointError (docs/guide/checkpoint-format.md), never in a crash or in wrong values.
namespace shardsim {

/// A checkpoint whose manifest was found good: its files together hold every element of every
/// tensor once. A file is opened when it is asked for something, its size and contents checked
/// then.
class CheckpointReader {
 public:
  /// Throws CheckpointError.
  CheckpointReader(FileSystem& files, const CheckpointPlace& place);

  [[nodiscard]] std::int64_t step() const { return manifest_.step; }
  [[nodiscard]] const Scalars& scalars() const { return manifest_.scalars; }
  /// By name.
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return manifest_.tensors; }
  [[nodiscard]] const Manifest& manifest() const { return manifest_; }

  /// Opens every file: it must be there, with its size. If many processes load, each opens the
  /// files with its own part; let one of them look for the others.
  void find_files();
  /// Reads every file and compares it with its checksum.
  void verify();

  /// Fills the bytes of each request, reading only the files that may hold some of it, each
  /// checked against its checksum before. After an exception the bytes may be partly filled.
  void load(std::span<const ChunkRequest> requests);

 private:
  // A request of one tensor, and a chunk that may hold some of it.
  struct Match {
    const ChunkRequest* request;
    const StoredChunk* chunk;
  };

  [[nodiscard]] std::string path_of(const StoredFile& file) const;
  [[nodiscard]] std::unique_ptr<InputFile> open(const StoredFile& file);
  void check(const StoredFile& file, InputFile& input);
  void copy(const StoredFile& file, std::span<const Match> matches);

  FileSystem& files_;
  CheckpointPlace place_;
  Manifest manifest_;
  std::vector<bool> checked_;  // By file.
};

/// A scalar of a given type; throws CheckpointError (E0814).
template <class Value>
[[nodiscard]] Value scalar(const CheckpointReader& reader, std::string_view name) {
  const auto found = reader.scalars().find(name);
  if (found != reader.scalars().end()) {
    if (const Value* value = std::get_if<Value>(&found->second)) return *value;
  }
  throw CheckpointError(
      CheckpointProblem::no_such_scalar,
      "the checkpoint has no scalar \"" + std::string(name) + "\"" +
          (found != reader.scalars().end() ? " of this type, it is " + describe(found->second)
                                           : ""));
}

/// A checkpoint that was passed over, and why.
struct SkippedCheckpoint {
  std::int64_t step = 0;
  std::string message;
};

/// The newest checkpoint (highest step) of which every byte is right, and the damaged ones that
/// were newer: say so to the user. Folders without a manifest are no checkpoints and are not
/// listed. Reads all of it: of several processes, let one choose and tell the others the step.
/// Throws CheckpointError: E0801 if there is none, and where all are damaged the error of the
/// newest.
struct LatestCheckpoint {
  CheckpointReader reader;
  std::vector<SkippedCheckpoint> skipped;
};
[[nodiscard]] LatestCheckpoint find_latest(FileSystem& files, const std::string& directory);

}  // namespace shardsim
