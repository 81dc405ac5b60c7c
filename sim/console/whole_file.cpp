#include "sim/console/whole_file.hpp"

#include <cerrno>
#include <iostream>
#include <optional>
#include <ostream>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/kernel/descriptor.hpp"

#include "sim/console/unfinished_file.hpp"
#include "sim/console/write_failure.hpp"

namespace shardsim {

namespace {

namespace fs = std::filesystem;

// A link of /proc/self/fd leads to an open file of this process, whatever its name is now.
std::optional<int> own_descriptor(fs::path path) {
  constexpr int kMostLinks = 40;  // The kernel's limit.
  const fs::path own = fmt::format("/proc/{}/fd", ::getpid());
  std::error_code error;
  for (int i = 0; i < kMostLinks; ++i) {
    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    if (fs::canonical(folder, error) == own && !error) {
      const std::string name = path.filename().string();
      const bool is_number = !name.empty() && name.size() < 8 &&
                             name.find_first_not_of("0123456789") == std::string::npos;
      return is_number ? std::optional(std::stoi(name)) : std::nullopt;
    }
    const fs::path next = fs::read_symlink(path, error);
    if (error) return std::nullopt;
    path = next.is_absolute() ? next : folder / next;
  }
  return std::nullopt;
}

enum class Target { new_name, old_file, stream };

Target target_of(const WriteFailure& failure, const fs::path& path) {
  if (path.native().find('\0') != std::string::npos) failure.refuse(EINVAL);
  if (!path.has_filename()) failure.refuse(path.empty() ? ENOENT : EISDIR);
  if (own_descriptor(path)) return Target::stream;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENAMETOOLONG) failure.refuse(errno);
    return Target::new_name;  // Also for a dangling link.
  }
  if (S_ISDIR(status.st_mode)) failure.refuse(EISDIR);
  if (S_ISBLK(status.st_mode)) failure.refuse(ENOTBLK);
  if (!S_ISREG(status.st_mode)) return Target::stream;
  struct stat link {};
  const bool is_link = ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
  return is_link ? Target::new_name : Target::old_file;
}

// Checks with the effective user, as open() does: a program may have another user's rights.
bool may_write(const fs::path& path, int how) {
  return ::faccessat(AT_FDCWD, path.c_str(), how, AT_EACCESS) == 0;
}

void write_into(const WriteFailure& failure, const fs::path& path,
                const std::function<void(std::ostream&)>& produce) {
  std::cout.flush();  // Earlier output comes first.
  const std::optional<int> own = own_descriptor(path);
  // Without O_CREAT: only an existing target is written to. Opening a pipe without a reader would
  // block for ever.
  Descriptor file(own ? ::fcntl(*own, F_DUPFD_CLOEXEC, 0)
                      : ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.number() < 0) failure.refuse(errno);
  if (!own) ::fcntl(file.number(), F_SETFL, 0);
  produce_into(failure, file.number(), produce);
  if (file.close() != 0) failure.refuse(errno);
}

}  // namespace

void write_whole_file(const fs::path& path, const std::function<void(std::ostream&)>& produce,
                      const std::string& otherwise) {
  const WriteFailure failure(path, otherwise);
  const Target target = target_of(failure, path);
  if (target == Target::stream) return write_into(failure, path, produce);
  // Renaming would replace a file whose "read-only" should protect it.
  if (target == Target::old_file && !may_write(path, W_OK)) failure.refuse(errno);
  UnfinishedFile file(failure, path);
  produce_into(failure, file.number(), produce);
  file.finish();
}

void require_writable(const fs::path& path, bool makes_folder, const std::string& otherwise) {
  const WriteFailure failure(path, otherwise);
  const Target target = target_of(failure, path);
  if (target != Target::new_name && !may_write(path, W_OK)) failure.refuse(errno);
  if (target == Target::stream) return;
  std::error_code error;
  fs::path folder = fs::absolute(path, error).parent_path();
  while (makes_folder && folder.has_relative_path() &&
         !fs::exists(fs::symlink_status(folder, error))) {
    folder = folder.parent_path();
  }
  if (!fs::exists(folder, error)) failure.refuse(error ? error.value() : ENOENT);
  if (!fs::is_directory(folder, error)) failure.refuse(ENOTDIR);
  if (!may_write(folder, W_OK | X_OK)) failure.refuse(errno);
}

void make_folder_of(const fs::path& path, const std::string& otherwise) {
  if (!path.has_parent_path()) return;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) WriteFailure(path, otherwise).refuse(error.value());
}

}  // namespace shardsim
