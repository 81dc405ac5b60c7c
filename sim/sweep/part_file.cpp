#include "sim/sweep/part_file.hpp"

#include <cerrno>
#include <cstring>
#include <ostream>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "sim/kernel/error.hpp"

#include "scenarios/source_text.hpp"

namespace shardsim {

namespace {

// Often enough that a crash of the machine costs only seconds of work, and rarely enough that cheap
// points do not wait for the disk.
constexpr int kLinesPerSync = 64;
constexpr int kMode = 0644;

}  // namespace

PartFile::PartFile(const std::filesystem::path& path, const PartHeader& header, std::ostream& err)
    : path_(path) {
  std::error_code ignored;  // Opening reports a better error.
  std::filesystem::create_directories(path.parent_path(), ignored);
  file_ = open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, kMode);
  if (file_ < 0) fail(std::strerror(errno));
  try {
    lock(err);
    const PartContents found = read_part(path_);
    if (found.torn && ftruncate(file_, static_cast<off_t>(found.whole_bytes)) != 0) {
      fail(std::strerror(errno));
    }
    if (found.whole_bytes > 0) require_same_sweep(found.header, path_, header, "this sweep");
    if (found.header != header) append(line_of(header));
  } catch (...) {
    close(file_);
    throw;
  }
}

PartFile::~PartFile() { close(file_); }  // And with it the lock.

void PartFile::lock(std::ostream& err) {
  if (flock(file_, LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK) {
    throw UsageError("E1311", fmt::format("another process is writing {}", path_.string()),
                     "wait for it, or give each process its own part: --shard 0/2, --shard 1/2, "
                     "or --shard auto");
  }
  err << "note: " << printable(path_.string(), 200) << " cannot be locked (" << std::strerror(errno)
      << "): see to it that only one process writes it\n";
}

void PartFile::append(const std::string& line) {
  ssize_t written = -1;
  do {
    written = write(file_, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(line.size())) {
    fail(written < 0 ? std::strerror(errno) : "no space left");
  }
  if (++unsynced_ >= kLinesPerSync) sync();
}

void PartFile::sync() {
  if (fdatasync(file_) != 0 && errno == EIO) fail(std::strerror(errno));
  unsynced_ = 0;
}

void PartFile::fail(const std::string& what) const {
  throw UsageError("E1312", fmt::format("cannot write {}: {}", path_.string(), what),
                   "what is in it stays good; make room or choose another folder with --out, and "
                   "start the sweep again");
}

}  // namespace shardsim
