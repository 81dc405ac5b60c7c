#include "sim/console/unfinished_file.hpp"

#include <cerrno>
#include <cstdint>
#include <ctime>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace shardsim {

namespace {

namespace fs = std::filesystem;

int open_folder(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  // O_PATH suffices for names below the folder: a folder without read permission may be writable.
  return ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
}

// Others who may write to the folder cannot guess the name.
std::string random_name() {
  std::uint64_t number = 0;
  while (::getrandom(&number, sizeof(number), 0) != static_cast<ssize_t>(sizeof(number))) {
  }
  return fmt::format(".shardsim-{:016x}", number);
}

// Some file systems have no fsync (EINVAL, ENOTSUP), and a pipe has no disk.
bool is_flushed(int file) {
  int result = -1;
  do {
    result = ::fsync(file);
  } while (result != 0 && errno == EINTR);
  return result == 0 || errno == EINVAL || errno == ENOTSUP;
}

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

}  // namespace

UnfinishedFile::SignalsWait::SignalsWait() {
  const sigset_t waiting = set_of({SIGINT, SIGTERM, SIGHUP, SIGXFSZ});
  pthread_sigmask(SIG_BLOCK, &waiting, &before_);
}

UnfinishedFile::SignalsWait::~SignalsWait() {
  if (sigismember(&before_, SIGXFSZ) == 0) {
    // The write that raised it has failed and was reported.
    const sigset_t too_large = set_of({SIGXFSZ});
    const timespec at_once{};
    sigtimedwait(&too_large, nullptr, &at_once);
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

UnfinishedFile::UnfinishedFile(const WriteFailure& failure, const fs::path& path)
    : failure_(failure),
      target_(path.filename().string()),
      folder_(open_folder(path)),
      file_(create()) {}

int UnfinishedFile::create() {
  if (folder_.number() < 0) failure_.refuse(errno);
  constexpr mode_t kReadableByAll = 0666;  // Without the bits of the user's mask.
  constexpr mode_t kReadableByOwner = 0600;
  constexpr mode_t kPermissions = 0777;
  constexpr mode_t kWritableByOthers = 022;
  struct stat old {};
  const bool replaces =
      ::fstatat(folder_.number(), target_.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISREG(old.st_mode);
  int file = -1;
  do {
    name_ = random_name();
    file = ::openat(folder_.number(), name_.c_str(),
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    replaces ? kReadableByOwner : kReadableByAll);
  } while (file < 0 && errno == EEXIST);
  if (file < 0) failure_.refuse(errno);
  if (replaces) {
    // Another user may have put the file there, writable by all; the new content is ours.
    const mode_t kept =
        old.st_uid == ::geteuid() ? kPermissions : kPermissions & ~kWritableByOthers;
    // A file system without permissions has none to keep.
    static_cast<void>(::fchmod(file, old.st_mode & kept));
  }
  return file;
}

UnfinishedFile::~UnfinishedFile() {
  if (!name_.empty()) ::unlinkat(folder_.number(), name_.c_str(), 0);
}

void UnfinishedFile::finish() {
  if (!is_flushed(file_.number()) || file_.close() != 0) failure_.refuse(errno);
  if (::renameat(folder_.number(), name_.c_str(), folder_.number(), target_.c_str()) != 0) {
    failure_.refuse(errno);
  }
  name_.clear();
  // Flushes the name, too. A folder without read permission cannot be flushed; the system does it.
  const Descriptor folder(::openat(folder_.number(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.number() >= 0 && !is_flushed(folder.number())) failure_.refuse(errno);
}

}  // namespace shardsim
