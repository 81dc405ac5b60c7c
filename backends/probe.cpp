#include "backends/probe.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include <fmt/format.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include "sim/kernel/descriptor.hpp"

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

// `bytes` from one end of a TCP connection to the other, in pieces that fit its buffers.
bool send_over_loopback(std::int64_t bytes) {
  const Descriptor listener(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* name = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.number(), name, length) != 0 || listen(listener.number(), 1) != 0 ||
      getsockname(listener.number(), name, &length) != 0) {
    return false;
  }
  const Descriptor sender(socket(AF_INET, SOCK_STREAM, 0));
  if (connect(sender.number(), name, length) != 0) return false;
  const Descriptor receiver(accept(listener.number(), nullptr, nullptr));
  if (receiver.number() < 0) return false;
  std::vector<char> piece(16384);
  for (std::int64_t left = bytes; left > 0;) {
    const auto size =
        static_cast<std::size_t>(std::min(left, static_cast<std::int64_t>(piece.size())));
    if (send(sender.number(), piece.data(), size, MSG_NOSIGNAL) != static_cast<ssize_t>(size) ||
        recv(receiver.number(), piece.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size)) {
      return false;
    }
    left -= static_cast<std::int64_t>(size);
  }
  return true;
}

}  // namespace

ProbeRow probe_mpirun(const std::string& path) {
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = (std::filesystem::path(folder) / "mpirun").string();
    if (folder.empty() || access(program.c_str(), X_OK) != 0) continue;
    const std::string version = first_line_of(quoted(program) + " --version 2>/dev/null");
    const std::string detail =
        fmt::format("{}, {}", version.empty() ? "no answer to --version" : version, program);
    if (version.find("Open MPI") != std::string::npos) return {"mpirun", true, detail, ""};
    return missing_row(
        "mpirun", detail,
        "install Open MPI (Debian: apt install openmpi-bin) and put it first on PATH");
  }
  return missing_row("mpirun", "no mpirun on PATH",
                     "install Open MPI (Debian: apt install openmpi-bin)");
}

std::optional<std::int64_t> read_loopback_bytes(const std::string& file) {
  std::ifstream stream(file);
  std::int64_t bytes = 0;
  if (!(stream >> bytes)) return std::nullopt;
  return bytes;
}

ProbeRow probe_loopback_counter(std::int64_t bytes, const std::string& file) {
  const auto missing = [](std::string detail) {
    return missing_row("loopback counter", std::move(detail),
                       "nothing to do: bytes are then compared by the other counts only");
  };
  const std::optional<std::int64_t> before = read_loopback_bytes(file);
  if (!before) return missing(file + " cannot be read");
  if (!send_over_loopback(bytes)) return missing("no connection over 127.0.0.1");
  const std::int64_t seen = read_loopback_bytes(file).value_or(*before) - *before;
  const std::string detail = fmt::format("{} of {} bytes counted", seen, bytes);
  if (seen < bytes || seen > bytes + bytes / 10 + 65536) return missing(detail);
  return {"loopback counter", true, detail, ""};
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
