#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

// The file system calls that checkpoints need, and no others, so that tests can stop any of them.
// Paths are those of the machine; folders are joined with '/'.
namespace shardsim {

enum class FileOperation : std::uint8_t {
  make_folder,
  create,
  write,
  sync,
  close,
  rename,
  sync_folder,
  list,
  open,
  read,
  remove,
  remove_folder,
};

/// "write", "sync of the folder", ... for messages.
[[nodiscard]] const char* name_of(FileOperation operation);
/// "No space left on device (errno 28)".
[[nodiscard]] std::string text_of_errno(int error_number);

/// A call that failed, with the system's error number. Caught inside strategies/checkpoint.
class FileError : public std::runtime_error {
 public:
  FileError(FileOperation operation, const std::string& path, int error_number);
  [[nodiscard]] FileOperation operation() const noexcept { return operation_; }
  [[nodiscard]] int error_number() const noexcept { return error_number_; }

 private:
  FileOperation operation_;
  int error_number_;
};

/// A file being written, from its beginning. Destroying it closes it, whatever comes of that.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  /// Writes some of the bytes, at least one unless there are none; returns how many.
  virtual std::size_t write(std::span<const std::byte> bytes) = 0;
  /// Returns when all bytes are on the medium.
  virtual void sync() = 0;
  virtual void close() = 0;
};

/// A regular file being read.
class InputFile {
 public:
  virtual ~InputFile() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Reads up to bytes.size() bytes from `offset`; returns how many, 0 at the end of the file.
  virtual std::size_t read(std::int64_t offset, std::span<std::byte> bytes) = 0;
};

/// All calls throw FileError.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// Does nothing if something of this name is there already.
  virtual void make_folder(const std::string& path) = 0;
  /// A new empty file; one that was there is emptied.
  virtual std::unique_ptr<OutputFile> create(const std::string& path) = 0;
  virtual std::unique_ptr<InputFile> open(const std::string& path) = 0;
  /// At once: a reader finds either the old or the new file under `to`.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  /// Returns when the names in the folder are on the medium.
  virtual void sync_folder(const std::string& path) = 0;
  /// Names in a folder, sorted.
  virtual std::vector<std::string> list(const std::string& path) = 0;
  virtual void remove(const std::string& path) = 0;
  /// REQUIRES: the folder is empty, else FileError.
  virtual void remove_folder(const std::string& path) = 0;
};

/// The files of this machine.
[[nodiscard]] FileSystem& posix_file_system();

/// Writes all bytes, in as many calls as it takes.
void write_all(OutputFile& file, const std::string& path, std::span<const std::byte> bytes);
/// Fills `bytes` from `offset`; false if the file ends before.
[[nodiscard]] bool read_all(InputFile& file, std::int64_t offset, std::span<std::byte> bytes);
/// The folder that holds a file or folder: "." for "a", "/" for "/a", "a" for "a/b/".
[[nodiscard]] std::string parent_of(const std::string& path);

}  // namespace shardsim
