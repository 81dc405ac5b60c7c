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

BackendReadiness readiness_of(const std::string& backend, const std::vector<ProbeRow>& needs) {
  for (const ProbeRow& row : needs) {
    if (!row.available) return {backend, row.detail};
  }
  return {backend, {}};
}

std::string render_doctor(const DoctorReport& report) {
  std::size_t width = 0;
  for (const ProbeRow& row : report.rows) width = std::max(width, row.what.size());
  std::string text;
  for (const ProbeRow& row : report.rows) {
    text += fmt::format("{:<8} {:<{}}  {}\n", row.available ? "ok" : "missing", row.what, width,
                        row.detail);
    if (!row.remedy.empty()) text += fmt::format("{:<{}}fix: {}\n", "", width + 11, row.remedy);
  }
  for (const auto& [backend, problem] : report.backends) {
    text += backend + ": " + (problem.empty() ? "ready" : "not ready: " + problem) + "\n";
  }
  return text;
}

std::string render_doctor_json(const DoctorReport& report) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const ProbeRow& row : report.rows) {
    all.push_back({{"what", row.what},
                   {"available", row.available},
                   {"detail", row.detail},
                   {"remedy", row.remedy}});
  }
  nlohmann::ordered_json backends = nlohmann::ordered_json::array();
  for (const auto& [backend, problem] : report.backends) {
    backends.push_back({{"backend", backend}, {"ready", problem.empty()}, {"problem", problem}});
  }
  nlohmann::ordered_json document;
  document["doctor"] = std::move(all);
  document["backends"] = std::move(backends);
  return document.dump(2) + "\n";
}

}  // namespace shardsim
