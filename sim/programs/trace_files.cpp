#include "sim/programs/trace_files.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string_view>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

#include "scenarios/read_file.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kMostTraceBytes = std::size_t{1} << 30U;

std::vector<std::string> files_in(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.path().extension() == ".jsonl") found.push_back(entry.path());
    }
    if (found.empty()) {
      throw UsageError("E1378", "folder " + path + " has no program files",
                       "give a folder with files NAME.jsonl, or the files themselves");
    }
    std::ranges::sort(found);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

}  // namespace

std::optional<int> rank_in_name(const std::string& path) {
  const std::size_t name = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  for (const std::string_view word : split_at(std::string_view(path).substr(name), '.')) {
    if (const std::optional<int> rank = parse_number<int>(word); rank && *rank >= 0) return rank;
  }
  return std::nullopt;
}

std::vector<TraceFile> read_trace_files(const std::vector<std::string>& paths) {
  std::vector<TraceFile> files;
  for (const std::string& path : files_in(paths)) {
    files.push_back({rank_in_name(path).value_or(static_cast<int>(files.size())), path,
                     read_regular_file(path, kMostTraceBytes)});
  }
  return files;
}

}  // namespace shardsim
