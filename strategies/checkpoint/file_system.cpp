#include "strategies/checkpoint/file_system.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/kernel/descriptor.hpp"

namespace shardsim {

const char* name_of(FileOperation operation) {
  static constexpr std::array kNames = {"making the folder",
                                        "creating the file",
                                        "writing",
                                        "fsync of the file",
                                        "closing the file",
                                        "renaming",
                                        "fsync of the folder",
                                        "listing the folder",
                                        "opening",
                                        "reading",
                                        "removing the file",
                                        "removing the folder"};
  const auto index = static_cast<std::size_t>(operation);
  return index < kNames.size() ? kNames[index] : "?";
}

std::string text_of_errno(int error_number) {
  return std::generic_category().message(error_number) + " (errno " + std::to_string(error_number) +
         ")";
}

FileError::FileError(FileOperation operation, const std::string& path, int error_number)
    : std::runtime_error(std::string(name_of(operation)) + " \"" + path +
                         "\": " + text_of_errno(error_number)),
      operation_(operation),
      error_number_(error_number) {}

void write_all(OutputFile& file, const std::string& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t written = file.write(bytes);
    // A medium that takes nothing and reports nothing would keep us here for ever.
    if (written == 0) throw FileError(FileOperation::write, path, EIO);
    bytes = bytes.subspan(written);
  }
}

bool read_all(InputFile& file, std::int64_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t got = file.read(offset, bytes);
    if (got == 0) return false;
    offset += static_cast<std::int64_t>(got);
    bytes = bytes.subspan(got);
  }
  return true;
}

std::string parent_of(const std::string& path) {
  std::size_t end = path.size();
  while (end > 1 && path[end - 1] == '/') --end;
  const std::string trimmed = path.substr(0, end);
  const std::size_t slash = trimmed.rfind('/');
  const std::string last = slash == std::string::npos ? trimmed : trimmed.substr(slash + 1);
  // The parent of a dotted name is not what stands before it.
  if (last == "." || last == "..") return trimmed + "/..";
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : trimmed.substr(0, slash);
}

namespace {

[[noreturn]] void fail(FileOperation operation, const std::string& path) {
  throw FileError(operation, path, errno);
}

// Repeats a call that a signal interrupted.
template <class Call>
auto retried(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

Descriptor open_descriptor(const std::string& path, int flags, FileOperation operation) {
  constexpr mode_t kReadableByAll = 0666;  // Less what the user's mask takes away.
  const int number =
      retried([&] { return ::open(path.c_str(), flags | O_CLOEXEC, kReadableByAll); });
  if (number < 0) fail(operation, path);
  return Descriptor(number);
}

class PosixOutput : public OutputFile {
 public:
  // Only names of temporaries are created, so a link in that place is not wanted.
  explicit PosixOutput(const std::string& path)
      : path_(path),
        descriptor_(open_descriptor(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW,
                                    FileOperation::create)) {}

  std::size_t write(std::span<const std::byte> bytes) override {
    const ssize_t written =
        retried([&] { return ::write(descriptor_.number(), bytes.data(), bytes.size()); });
    if (written < 0) fail(FileOperation::write, path_);
    return static_cast<std::size_t>(written);
  }
  void sync() override {
    if (retried([&] { return ::fsync(descriptor_.number()); }) != 0) {
      fail(FileOperation::sync, path_);
    }
  }
  void close() override {
    if (descriptor_.close() != 0) fail(FileOperation::close, path_);
  }

 private:
  std::string path_;
  Descriptor descriptor_;
};

class PosixInput : public InputFile {
 public:
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  explicit PosixInput(const std::string& path)
      : path_(path),
        descriptor_(open_descriptor(path, O_RDONLY | O_NONBLOCK, FileOperation::open)) {
    struct stat status {};
    if (::fstat(descriptor_.number(), &status) != 0) fail(FileOperation::open, path_);
    if (!S_ISREG(status.st_mode)) {
      throw FileError(FileOperation::open, path_, S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
    }
    size_ = status.st_size;
  }

  [[nodiscard]] std::int64_t size() const override { return size_; }
  std::size_t read(std::int64_t offset, std::span<std::byte> bytes) override {
    const ssize_t got =
        retried([&] { return ::pread(descriptor_.number(), bytes.data(), bytes.size(), offset); });
    if (got < 0) fail(FileOperation::read, path_);
    return static_cast<std::size_t>(got);
  }

 private:
  std::string path_;
  Descriptor descriptor_;
  std::int64_t size_ = 0;
};

class PosixFileSystem : public FileSystem {
 public:
  void make_folder(const std::string& path) override {
    constexpr mode_t kUsableByAll = 0777;
    if (::mkdir(path.c_str(), kUsableByAll) != 0 && errno != EEXIST) {
      fail(FileOperation::make_folder, path);
    }
  }
  std::unique_ptr<OutputFile> create(const std::string& path) override {
    return std::make_unique<PosixOutput>(path);
  }
  std::unique_ptr<InputFile> open(const std::string& path) override {
    return std::make_unique<PosixInput>(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail(FileOperation::rename, to);
  }
  void sync_folder(const std::string& path) override {
    const Descriptor folder =
        open_descriptor(path, O_RDONLY | O_DIRECTORY, FileOperation::sync_folder);
    // EINVAL: this file system has no such thing as syncing a folder, and none to be asked for.
    if (retried([&] { return ::fsync(folder.number()); }) != 0 && errno != EINVAL) {
      fail(FileOperation::sync_folder, path);
    }
  }
  std::vector<std::string> list(const std::string& path) override {
    std::error_code error;
    std::vector<std::string> names;
    std::filesystem::directory_iterator entry(path, error);
    while (!error && entry != std::filesystem::directory_iterator()) {
      names.push_back(entry->path().filename().string());
      entry.increment(error);
    }
    if (error) throw FileError(FileOperation::list, path, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }
  void remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) fail(FileOperation::remove, path);
  }
  void remove_folder(const std::string& path) override {
    if (::rmdir(path.c_str()) != 0) fail(FileOperation::remove_folder, path);
  }
};

}  // namespace

FileSystem& posix_file_system() {
  static PosixFileSystem files;
  return files;
}

}  // namespace shardsim
