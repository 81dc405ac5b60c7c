#include "sim/sweep/part_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <ostream>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "sim/kernel/error.hpp"

#include "scenarios/source_text.hpp"

namespace shardsim {

namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "part-";
constexpr const char* kExtension = ".ndjson";

void take_line(PartContents& part, const std::string& line, std::uint64_t offset) {
  std::optional<PartLine> parsed = parse_line(line);
  const bool is_first = offset == 0;
  if (is_first && (!parsed || !parsed->header)) {
    throw UsageError("E1309", fmt::format("{} is no part of a sweep", part.path.string()),
                     "`shardsim sweep` writes files part-i-of-n.ndjson; move others away");
  }
  if (parsed && parsed->header) {
    if (!is_first) require_same_sweep(*parsed->header, part.path, part.header, "its first line");
    part.header = std::move(*parsed->header);
  } else if (!parsed || parsed->point >= part.header.num_points) {
    ++part.num_damaged;
  } else {
    part.rows.push_back(
        {parsed->point, parsed->key, parsed->status, offset, line.size(), parsed->is_final});
  }
}

// Often enough that a crash of the machine costs only seconds of work, and rarely enough that cheap
// points do not wait for the disk.
constexpr int kLinesPerSync = 64;
constexpr int kMode = 0644;

}  // namespace

PartContents read_part(const fs::path& path) {
  PartContents part{.path = path};
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw UsageError("E1309", fmt::format("cannot read {}", path.string()),
                     "check the folder and its permissions");
  }
  std::string line;
  while (std::getline(file, line)) {
    if (file.eof()) {  // Without a newline: torn, or another process is just writing it.
      part.torn = true;
      break;
    }
    take_line(part, line, part.whole_bytes);
    part.whole_bytes += line.size() + 1;
  }
  return part;
}

void require_same_sweep(const PartHeader& found, const fs::path& where, const PartHeader& wanted,
                        const std::string& wanted_by) {
  if (found.version != wanted.version) {
    throw UsageError("E1310",
                     fmt::format("{} was made by shardsim {}, {} by {}", where.string(),
                                 found.version, wanted_by, wanted.version),
                     "versions do not mix: take another folder with --out, or finish with that "
                     "version");
  }
  if (found.sweep == wanted.sweep && found.columns == wanted.columns) return;
  throw UsageError(
      "E1310",
      fmt::format("{} is of another sweep ({}) than {} ({}): the scenario, its axes or "
                  "--set differ",
                  where.string(), found.sweep, wanted_by, wanted.sweep),
      "take another folder with --out, or remove the old one");
}

std::vector<fs::path> parts_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.rfind(kPrefix, 0) == 0 && it->path().extension() == kExtension) {
      paths.push_back(it->path());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

fs::path part_path(const fs::path& folder, std::size_t shard, std::size_t num_shards) {
  return folder / fmt::format("{}{}-of-{}{}", kPrefix, shard, num_shards, kExtension);
}

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
