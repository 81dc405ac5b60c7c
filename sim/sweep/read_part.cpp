#include <algorithm>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "sim/sweep/part_file.hpp"

namespace shardsim {

namespace fs = std::filesystem;

namespace {

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

}  // namespace shardsim
