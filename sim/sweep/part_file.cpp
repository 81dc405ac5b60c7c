#include "sim/sweep/part_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
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

// Throws UsageError (E1310) unless both have the same sweep and version.
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

// All parts in a folder, by name; none if there is no such folder.
std::vector<fs::path> parts_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.rfind(kPrefix, 0) == 0 && it->path().extension() == kExtension) {
      paths.push_back(it->path());
    }
  }
  std::ranges::sort(paths);
  return paths;
}

void take_line(PartContents& part, const std::string& line, std::uint64_t offset) {
  std::optional<PartLine> parsed = parse_line(line);
  const bool is_first = offset == 0;
  if (is_first && (!parsed || !parsed->header)) {
    throw UsageError("E1309", fmt::format("{} is not a part of a sweep", part.path.string()),
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

// Makes folder and file as needed; below 0 if they cannot be made.
int open_part(const fs::path& path) {
  std::error_code ignored;  // Opening reports a better error.
  fs::create_directories(path.parent_path(), ignored);
  return open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, kMode);
}

struct RowPlace {
  std::size_t part = 0;
  const KeptRow* row = nullptr;
};

constexpr std::size_t kMostOpen = 256;  // Below the number that processes may open anywhere.

// Lines by place. Rows of neighbouring points lie in different files, so these stay open.
class LineReader {
 public:
  explicit LineReader(const std::vector<PartContents>& parts) : parts_(parts) {}

  std::string read(const RowPlace& place) {
    if (files_.count(place.part) == 0 && files_.size() >= kMostOpen) files_.clear();
    const fs::path& path = parts_[place.part].path;
    std::ifstream& file = files_[place.part];
    if (!file.is_open()) file.open(path, std::ios::binary);
    std::string line(place.row->length, '\0');
    file.seekg(static_cast<std::streamoff>(place.row->offset));
    file.read(line.data(), static_cast<std::streamsize>(line.size()));
    if (!file) {
      throw UsageError("E1309", fmt::format("cannot read {}", path.string()),
                       "it became shorter: run `shardsim sweep` again");
    }
    return line;
  }

 private:
  const std::vector<PartContents>& parts_;
  std::map<std::size_t, std::ifstream> files_;
};

// If a point ended in another part, a failure of the machine is dropped.
void keep_final(std::vector<RowPlace>& of_point) {
  const auto is_final = [](const RowPlace& place) { return place.row->is_final; };
  const auto end = std::stable_partition(of_point.begin(), of_point.end(), is_final);
  of_point.erase(end == of_point.begin() ? end + 1 : end, of_point.end());
}

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

fs::path part_path(const fs::path& folder, std::size_t shard, std::size_t num_shards) {
  return folder / fmt::format("{}{}-of-{}{}", kPrefix, shard, num_shards, kExtension);
}

PartFile::PartFile(const fs::path& path, const PartHeader& header, std::ostream& err)
    : path_(path), file_(open_part(path)) {
  if (file_.number() < 0) fail(std::strerror(errno));
  lock(err);
  const PartContents found = read_part(path_);
  if (found.torn && ftruncate(file_.number(), static_cast<off_t>(found.whole_bytes)) != 0) {
    fail(std::strerror(errno));
  }
  if (found.whole_bytes > 0) require_same_sweep(found.header, path_, header, "this sweep");
  if (found.header != header) append(line_of(header));
}

void PartFile::lock(std::ostream& err) {
  if (flock(file_.number(), LOCK_EX | LOCK_NB) == 0) return;
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
    written = write(file_.number(), line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(line.size())) {
    fail(written < 0 ? std::strerror(errno) : "no space left");
  }
  if (++unsynced_ >= kLinesPerSync) sync();
}

void PartFile::sync() {
  if (fdatasync(file_.number()) != 0 && errno == EIO) fail(std::strerror(errno));
  unsynced_ = 0;
}

void PartFile::fail(const std::string& what) const {
  throw UsageError("E1312", fmt::format("cannot write {}: {}", path_.string(), what),
                   "its contents stay valid; make room or choose another folder with --out, and "
                   "start the sweep again");
}

PointIndex::PointIndex(const fs::path& folder, const PartHeader* wanted) {
  for (const fs::path& path : parts_in(folder)) {
    PartContents part = read_part(path);
    if (part.whole_bytes == 0) continue;  // Just made.
    if (wanted != nullptr) {
      require_same_sweep(part.header, path, *wanted, "this sweep");
    } else if (!parts_.empty()) {
      require_same_sweep(part.header, path, parts_.front().header, parts_.front().path.string());
    }
    parts_.push_back(std::move(part));
  }
  for (const PartContents& part : parts_) {
    std::map<std::size_t, const KeptRow*> last;
    for (const KeptRow& row : part.rows) last[row.point] = &row;
    for (const auto& [point, row] : last) {
      if (row->is_final) keys_.emplace(point, row->key);
    }
  }
}

std::set<std::size_t> PointIndex::points() const {
  std::set<std::size_t> points;
  for (const auto& [point, key] : keys_) points.insert(point);
  return points;
}

std::size_t PointIndex::num_damaged() const {
  return std::transform_reduce(parts_.begin(), parts_.end(), std::size_t{0}, std::plus(),
                               [](const PartContents& part) { return part.num_damaged; });
}

void PointIndex::for_each_line(
    const std::function<void(const KeptRow& row, const std::string& line)>& take) const {
  std::map<std::size_t, std::vector<RowPlace>> places;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    for (const KeptRow& row : parts_[i].rows) {
      std::vector<RowPlace>& of_point = places[row.point];
      if (!of_point.empty() && of_point.back().part == i) of_point.pop_back();
      of_point.push_back({i, &row});
    }
  }
  LineReader reader(parts_);
  for (auto& [point, of_point] : places) {
    keep_final(of_point);
    const std::string line = reader.read(of_point.front());
    for (std::size_t i = 1; i < of_point.size(); ++i) {
      const RowPlace& other = of_point[i];
      if (reader.read(other) == line) continue;
      throw UsageError("E1316",
                       fmt::format("point {} differs between {} and {}", point,
                                   parts_[of_point.front().part].path.string(),
                                   parts_[other.part].path.string()),
                       "a preset or a file of the scenario has changed between them: remove the "
                       "older part and run `shardsim sweep` again");
    }
    take(*of_point.front().row, line);
  }
}

}  // namespace shardsim
