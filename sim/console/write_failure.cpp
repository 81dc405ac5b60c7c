#include "sim/console/write_failure.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <ostream>
#include <streambuf>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "sim/kernel/error.hpp"

#include "scenarios/source_text.hpp"

namespace shardsim {

namespace {

namespace fs = std::filesystem;

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
    Reason{ELOOP, "its links lead in a circle", "remove one of them"},
    Reason{EINVAL, "this cannot be a file's name", "write a plain name"},
    Reason{EBADF, "it stands for a file that is not open for writing", "open it (3> FILE)"},
    Reason{ENXIO, "nobody reads it", "start its reader first"},
    Reason{EPIPE, "nobody reads it any more", "keep the reader running"},
};

std::string shown(const fs::path& path) { return "\"" + printable(path.string(), 200) + "\""; }

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

}  // namespace

WriteFailure::WriteFailure(fs::path path, std::string otherwise)
    : path_(std::move(path)), otherwise_(std::move(otherwise)) {}

void WriteFailure::refuse(int error) const {
  const fs::path folder = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  const std::string start = "cannot write " + shown(path_) + ": ";
  for (const Reason& reason : kReasons) {
    if (reason.error != error) continue;
    throw UsageError("E0901", start + fmt::format(fmt::runtime(reason.why), shown(folder)),
                     fmt::format("{}, or {}", reason.fix, otherwise_));
  }
  throw UsageError("E0901", start + std::strerror(error), otherwise_);
}

void produce_into(const WriteFailure& failure, int file,
                  const std::function<void(std::ostream&)>& produce) {
  FileBuffer buffer(file);
  std::ostream stream(&buffer);
  produce(stream);
  stream.flush();
  if (buffer.error() != 0) failure.refuse(buffer.error());
}

}  // namespace shardsim
