#include "sim/sweep/point_index.hpp"

#include <algorithm>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

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
    const std::filesystem::path& path = parts_[place.part].path;
    std::ifstream& file = files_[place.part];
    if (!file.is_open()) file.open(path, std::ios::binary);
    std::string line(place.row->length, '\0');
    file.seekg(static_cast<std::streamoff>(place.row->offset));
    file.read(line.data(), static_cast<std::streamsize>(line.size()));
    if (!file) {
      throw UsageError("E1309", fmt::format("cannot read {}", path.string()),
                       "it has become shorter: run `shardsim sweep` again");
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

PointIndex::PointIndex(const std::filesystem::path& folder, const PartHeader* wanted) {
  for (const std::filesystem::path& path : parts_in(folder)) {
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
  std::size_t damaged = 0;
  for (const PartContents& part : parts_) damaged += part.num_damaged;
  return damaged;
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
