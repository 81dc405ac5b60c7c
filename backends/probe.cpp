#include "backends/probe.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace shardsim {

namespace {

// The first line that a command prints; empty if it cannot be run.
std::string first_line_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (!pipe) return {};
  std::string text;
  std::array<char, 256> part{};
  while (std::fgets(part.data(), static_cast<int>(part.size()), pipe.get()) != nullptr) {
    text += part.data();
  }
  return text.substr(0, text.find('\n'));
}

// For a shell: nothing in it has a meaning.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char letter : text) {
    result += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  }
  return result + "'";
}

}  // namespace

ProbeRow probe_mpirun(const std::string& path) {
  ProbeRow row{.what = "mpirun"};
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = (std::filesystem::path(folder) / "mpirun").string();
    if (folder.empty() || access(program.c_str(), X_OK) != 0) continue;
    const std::string version = first_line_of(quoted(program) + " --version 2>/dev/null");
    row.available = version.find("Open MPI") != std::string::npos;
    row.detail =
        fmt::format("{}, {}", version.empty() ? "no answer to --version" : version, program);
    if (!row.available) {
      row.remedy = "install Open MPI (Debian: apt install openmpi-bin) and put it first on PATH";
    }
    return row;
  }
  row.detail = "no mpirun on PATH";
  row.remedy = "install Open MPI (Debian: apt install openmpi-bin)";
  return row;
}

std::string render_doctor(const std::vector<ProbeRow>& rows) {
  std::size_t width = 0;
  for (const ProbeRow& row : rows) width = std::max(width, row.what.size());
  std::string text;
  for (const ProbeRow& row : rows) {
    text += fmt::format("{:<8} {:<{}}  {}\n", row.available ? "ok" : "missing", row.what, width,
                        row.detail);
    if (!row.remedy.empty()) text += fmt::format("{:<{}}fix: {}\n", "", width + 11, row.remedy);
  }
  return text;
}

std::string render_doctor_json(const std::vector<ProbeRow>& rows) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const ProbeRow& row : rows) {
    all.push_back({{"what", row.what},
                   {"available", row.available},
                   {"detail", row.detail},
                   {"remedy", row.remedy}});
  }
  nlohmann::ordered_json document;
  document["doctor"] = std::move(all);
  return document.dump(2) + "\n";
}

}  // namespace shardsim
