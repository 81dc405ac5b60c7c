#include "sim/console/output_paths.hpp"

#include <algorithm>
#include <optional>
#include <system_error>

#include <sys/stat.h>

#include "sim/kernel/error.hpp"

#include "reports/csv_tables.hpp"
#include "sim/console/whole_file.hpp"

namespace shardsim {

namespace {

namespace fs = std::filesystem;

// Identifies the file of a path: equal for every path to the same file.
struct Identity {
  fs::path whole;  // Without links; empty for a pipe or a device.
  std::optional<std::pair<dev_t, ino_t>> number;
};

Identity identity_of(const fs::path& path) {
  Identity identity;
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return identity;
    identity.number = {status.st_dev, status.st_ino};
  }
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  const fs::path canonical = fs::weakly_canonical(absolute, error);
  identity.whole = error ? absolute.lexically_normal() : canonical;
  return identity;
}

bool is_within(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

bool collide(const Identity& a, const Identity& b) {
  if (a.whole.empty() || b.whole.empty()) return false;
  if (a.number && a.number == b.number) return true;
  return is_within(a.whole, b.whole) || is_within(b.whole, a.whole);
}

std::string shown(const PathInUse& used) { return used.what + " " + quoted_path(used.path); }

[[noreturn]] void refuse_collision(const PathInUse& output, const std::string& other) {
  throw UsageError("E0910", shown(output) + " would replace " + other,
                   "give it another name, or write to another folder");
}

}  // namespace

void require_apart(const std::vector<PathInUse>& read, const std::vector<PathInUse>& written) {
  std::vector<Identity> inputs;
  for (const PathInUse& input : read) inputs.push_back(identity_of(input.path));
  for (const PathInUse& output : written) {
    const Identity identity = identity_of(output.path);
    for (std::size_t i = 0; i < read.size(); ++i) {
      if (collide(identity, inputs[i])) refuse_collision(output, read[i].what);
    }
  }
}

void require_distinct(const std::vector<PathInUse>& written) {
  std::vector<Identity> identities;
  for (const PathInUse& output : written) {
    const Identity identity = identity_of(output.path);
    for (std::size_t i = 0; i < identities.size(); ++i) {
      if (collide(identity, identities[i])) refuse_collision(output, shown(written[i]));
    }
    identities.push_back(identity);
  }
}

void require_outputs(const std::vector<PathInUse>& read, const std::vector<PathInUse>& written,
                     const std::string& otherwise) {
  for (const PathInUse& output : written) require_writable(output.path, false, otherwise);
  require_apart(read, written);
  require_distinct(written);
}

std::vector<PathInUse> paths_read(const std::vector<FileRead>& read, const std::string& file) {
  std::vector<PathInUse> paths;
  if (!file.empty()) paths.push_back({"the scenario", file == "-" ? "/dev/stdin" : file});
  for (const FileRead& each : read) paths.push_back({each.what, each.path});
  return paths;
}

std::string table_beside(const std::string& csv, const std::string& table) {
  const fs::path path(csv);
  return (path.parent_path() / (path.stem().string() + "." + table + ".csv")).string();
}

std::vector<PathInUse> paths_written(const OutputSpec& output, const fs::path& folder) {
  std::vector<PathInUse> paths;
  const auto add = [&](const char* field, const std::string& name) {
    if (!name.empty()) paths.push_back({field, folder / name});
  };
  add("output.result", output.result);
  add("output.trace", output.trace);
  add("output.report", output.report);
  add("output.markdown", output.markdown);
  add("output.csv", output.csv);
  if (output.csv.empty()) return paths;
  for (const CsvTable& table : csv_tables(RunDetail())) {
    add("a table of output.csv", table_beside(output.csv, table.name));
  }
  return paths;
}

}  // namespace shardsim
