#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "backends/mpi/module/job.hpp"

// Counts of Open MPI's monitoring component: bytes and messages sent to each process. Filtered
// (value 2), it separates messages with user tags ("E" rows) from those of MPI's own collectives
// and start-up ("I"). Version 4.1 lost its variables of the tool interface, as the component steps
// between the program and the watched layer. The files written when MPI ends remain. Source:
// Bosilca, Foyer, Jeannot, Mercier, Papaure, "Online Dynamic Monitoring of MPI Communications"
// (2017), and the component's README.
namespace shardsim_mpi {

namespace {

std::string folder;  // This process's output folder; empty: nothing is monitored.

// Sets one variable of Open MPI, unless it is set. Whether it then has our value.
bool set_parameter(const char* name, const char* value) {
  if (std::getenv(name) != nullptr) return std::string(std::getenv(name)) == value;
  return setenv(name, value, /*overwrite=*/0) == 0;
}

std::filesystem::path file_of(int rank) {
  return std::filesystem::path(folder) / ("wire." + std::to_string(rank) + ".prof");
}

// A folder that is emptied even if its processes die first: the launcher's, or mpirun's for this
// job.
std::filesystem::path place_for_files(std::error_code& error) {
  for (const char* const name : {"SHARDSIM_SCRATCH", "OMPI_MCA_orte_jobfam_session_dir"}) {
    const char* const place = std::getenv(name);
    if (place != nullptr && std::filesystem::is_directory(place, error)) return place;
  }
  return std::filesystem::temp_directory_path(error);
}

void read_rows(std::istream& file, int rank, Wire& wire) {
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string kind;
    int from = 0;
    int to = 0;
    std::int64_t bytes = 0;
    std::string unit;
    std::int64_t messages = 0;
    if (!(words >> kind >> from >> to >> bytes >> unit >> messages)) continue;
    const auto receiver = static_cast<std::size_t>(to);
    if (kind != "E" || from != rank || to < 0 || receiver >= wire.bytes.size()) continue;
    wire.bytes[receiver] += bytes;
    wire.messages[receiver] += messages;
  }
}

}  // namespace

void ask_for_monitoring() {
  std::error_code error;
  std::string name = (place_for_files(error) / "shardsim-wire-XXXXXX").string();
  if (error || mkdtemp(name.data()) == nullptr) return;
  folder = name;
  const std::string prefix = folder + "/wire";
  const bool ours = set_parameter("OMPI_MCA_pml_monitoring_enable", "2") &&
                    set_parameter("OMPI_MCA_pml_monitoring_enable_output", "3") &&
                    set_parameter("OMPI_MCA_pml_monitoring_filename", prefix.c_str());
  if (!ours) forget_monitoring();
}

void collect_monitoring(int rank, int world_size) {
  if (folder.empty()) return;
  std::ifstream file(file_of(rank));
  if (file) {
    Wire& wire = job().wire;
    wire.bytes.assign(static_cast<std::size_t>(world_size), 0);
    wire.messages.assign(static_cast<std::size_t>(world_size), 0);
    read_rows(file, rank, wire);
    for (const auto& [receiver, pieces] : job().extra_pieces) {
      wire.messages[static_cast<std::size_t>(receiver)] -= pieces;
    }
  }
  forget_monitoring();
}

void forget_monitoring() {
  std::error_code error;
  if (!folder.empty()) std::filesystem::remove_all(folder, error);
  folder.clear();
}

std::int32_t wire(std::int64_t* bytes, std::int64_t* messages) {
  const Wire& wire = job().wire;
  if (wire.bytes.empty()) {
    job().error = "this MPI does not monitor messages, or has not ended";
    return kMpiFailed;
  }
  std::copy(wire.bytes.begin(), wire.bytes.end(), bytes);
  std::copy(wire.messages.begin(), wire.messages.end(), messages);
  return kMpiOk;
}

}  // namespace shardsim_mpi
