#include "sim/console/whole_file.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <optional>
#include <ostream>
#include <streambuf>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/kernel/descriptor.hpp"
#include "sim/kernel/error.hpp"

#include "scenarios/read_file.hpp"
#include "scenarios/scenario_error.hpp"
#include "scenarios/source_text.hpp"

namespace shardsim {

namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

struct Reason {
  int error;
  const char* why;  // May contain "{0}", the folder.
  const char* fix;
};

constexpr std::array kReasons = {
    Reason{EACCES, "no permission for it, or for the folder {0}", "change the permissions"},
    Reason{EPERM, "you are not allowed to do this in the folder {0}", "change its permissions"},
    Reason{EROFS, "the file system of {0} is read-only", "mount it writable"},
    Reason{ENOSPC, "no space is left on the device of {0}", "make room there"},
    Reason{EDQUOT, "your quota on the disk of {0} is used up", "make room there"},
    Reason{EFBIG, "it would be larger than a file may be", "raise the limit (ulimit -f)"},
    Reason{ENOENT, "there is no folder {0}", "make the folder"},
    Reason{ENOTDIR, "{0} is not a folder", "move what is in the way"},
    Reason{EISDIR, "it is a folder", "name a file in it"},
    Reason{ENOTBLK, "it is a disk, not a file", "write the name of a file"},
    Reason{EBUSY, "something is mounted in its place", "mount its folder instead"},
    Reason{ENAMETOOLONG, "the name is too long", "shorten it"},
    Reason{ELOOP, "its links form a cycle", "remove one of them"},
    Reason{EINVAL, "this cannot be a file's name", "write a plain name"},
    Reason{EBADF, "it stands for a file that is not open for writing", "open it (3> FILE)"},
    Reason{ENXIO, "nobody reads it", "start its reader first"},
    Reason{EPIPE, "nobody reads it any more", "keep the reader running"},
};

// Explains why a file cannot be written.
struct WriteFailure {
  fs::path path;
  std::string otherwise;  // The user's other way out, such as "choose another with -o".

  // Throws UsageError E0901 with the cause of `error`, an errno, and a way out.
  [[noreturn]] void refuse(int error) const {
    const std::string start = "cannot write " + quoted_path(path) + ": ";
    for (const Reason& reason : kReasons) {
      if (reason.error != error) continue;
      const std::string folder = quoted_path(folder_of(path));
      throw UsageError("E0901", start + fmt::format(fmt::runtime(reason.why), folder),
                       fmt::format("{}, or {}", reason.fix, otherwise));
    }
    throw UsageError("E0901", start + std::strerror(error), otherwise);
  }
};

// The first error is kept, and nothing is written after it.
class FileBuffer : public std::streambuf {
 public:
  explicit FileBuffer(int file) : file_(file) {
    setp(bytes_.data(), bytes_.data() + bytes_.size());
  }
  [[nodiscard]] int error() const { return error_; }

 protected:
  int sync() override {
    const char* at = pbase();
    while (at < pptr() && error_ == 0) {
      const ssize_t written = ::write(file_, at, static_cast<std::size_t>(pptr() - at));
      if (written >= 0) {
        at += written;
      } else if (errno != EINTR) {
        error_ = errno;
      }
    }
    setp(bytes_.data(), bytes_.data() + bytes_.size());
    return error_ == 0 ? 0 : -1;
  }
  int_type overflow(int_type character) override {
    if (sync() != 0) return traits_type::eof();
    if (!traits_type::eq_int_type(character, traits_type::eof())) {
      sputc(traits_type::to_char_type(character));
    }
    return traits_type::not_eof(character);
  }

 private:
  // Not on the stack: a rank's fiber may write, and its stack is small.
  std::vector<char> bytes_ = std::vector<char>(std::size_t{1} << 16U);
  int file_;
  int error_ = 0;
};

// Writes the output of `produce` to an open file. Reports a failure at the end; output after the
// failure is dropped.
void produce_into(const WriteFailure& failure, int file,
                  const std::function<void(std::ostream&)>& produce) {
  FileBuffer buffer(file);
  std::ostream stream(&buffer);
  produce(stream);
  stream.flush();
  if (buffer.error() != 0) failure.refuse(buffer.error());
}

// A link of /proc/self/fd leads to an open file of this process, whatever its name is now.
std::optional<int> own_descriptor(fs::path path) {
  constexpr int kMostLinks = 40;  // The kernel's limit.
  const fs::path own = fmt::format("/proc/{}/fd", ::getpid());
  std::error_code error;
  for (int i = 0; i < kMostLinks; ++i) {
    const fs::path folder = folder_of(path);
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

// Signals that end the process, and that of a file beyond the user's size limit (SIGXFSZ), wait
// until the end of this.
class SignalsWait {
 public:
  SignalsWait() {
    const sigset_t waiting = set_of({SIGINT, SIGTERM, SIGHUP, SIGXFSZ});
    pthread_sigmask(SIG_BLOCK, &waiting, &before_);
  }
  ~SignalsWait() {
    if (sigismember(&before_, SIGXFSZ) == 0) {
      // The write that raised it has failed and was reported.
      const sigset_t too_large = set_of({SIGXFSZ});
      const timespec at_once{};
      sigtimedwait(&too_large, nullptr, &at_once);
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_{};
};

// A file that is being written under a random name in the folder of the final file. Unless it was
// finished, it is removed at the end. Signals that end the process wait meanwhile, so they leave
// nothing behind. A file beyond the user's size limit is an error like others.
class UnfinishedFile {
 public:
  // Both outlive this. Throws Error (E0901).
  UnfinishedFile(const WriteFailure& failure, const fs::path& path)
      : failure_(failure),
        target_(path.filename().string()),
        // O_PATH suffices for names below the folder, which may be writable and not readable.
        folder_(::open(folder_of(path).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)),
        file_(create()) {}
  ~UnfinishedFile() {
    if (!name_.empty()) ::unlinkat(folder_.number(), name_.c_str(), 0);
  }
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  [[nodiscard]] int number() const { return file_.number(); }

  // Flushes it to the disk and gives it the final name. Throws Error (E0901); the old file then
  // stays as it was.
  void finish() {
    if (!is_flushed(file_.number()) || file_.close() != 0) failure_.refuse(errno);
    if (::renameat(folder_.number(), name_.c_str(), folder_.number(), target_.c_str()) != 0) {
      failure_.refuse(errno);
    }
    name_.clear();
    // Flushes the name, too. A folder without read permission cannot be flushed; the system does
    // it.
    const Descriptor folder(::openat(folder_.number(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.number() >= 0 && !is_flushed(folder.number())) failure_.refuse(errno);
  }

 private:
  int create() {
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

  SignalsWait signals_wait_;  // Until the end: declared first, it is destroyed last.
  const WriteFailure& failure_;
  std::string target_;
  Descriptor folder_;
  std::string name_;
  Descriptor file_;
};

}  // namespace

void write_whole_file(const fs::path& path, const std::function<void(std::ostream&)>& produce,
                      const std::string& otherwise) {
  const WriteFailure failure{path, otherwise};
  const Target target = target_of(failure, path);
  if (target == Target::stream) return write_into(failure, path, produce);
  // Renaming would replace a file whose "read-only" should protect it.
  if (target == Target::old_file && !may_write(path, W_OK)) failure.refuse(errno);
  UnfinishedFile file(failure, path);
  produce_into(failure, file.number(), produce);
  file.finish();
}

void require_writable(const fs::path& path, bool makes_folder, const std::string& otherwise) {
  const WriteFailure failure{path, otherwise};
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
  if (error) WriteFailure{path, otherwise}.refuse(error.value());
}

void write_text(const std::filesystem::path& path, const std::string& text, std::ostream& err) {
  write_whole_file(path, [&text](std::ostream& file) { file << text; });
  tell_written(path, err);
}

void write_complete(const std::filesystem::path& path, const std::string& text,
                    const std::string& otherwise) {
  make_folder_of(path, otherwise);
  write_whole_file(
      path, [&text](std::ostream& file) { file << text; }, otherwise);
}

void tell_written(const std::filesystem::path& path, std::ostream& err) {
  err << "wrote " << printable(path.string(), kShownPath) << "\n";
}

std::string quoted_path(const fs::path& path) {
  return "\"" + printable(path.string(), kShownPath) + "\"";
}

std::string read_standard_input(std::istream& in, std::size_t max_bytes) {
  ProblemList problems;
  std::optional<std::string> text = read_stream(in, "standard input", max_bytes, problems);
  problems.throw_if_any();
  return std::move(*text);
}

}  // namespace shardsim
