#include <cstdlib>

#include "backends/mpi/module/job.hpp"

// What Open MPI's monitoring component counts, read through MPI's tool interface: bytes and
// messages that were sent to each process. Filtered (value 2): messages with tags of users only,
// so neither those of MPI's own collectives nor start-up. Source: Bosilca, Foyer, Jeannot, Mercier,
// Papaure, "Online Dynamic Monitoring of MPI Communications" (2017), and the component's README.
namespace shardsim_mpi {

namespace {

struct Counter {
  MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
  int count = 0;
};

bool has_tools = false;
MPI_T_pvar_session session = MPI_T_PVAR_SESSION_NULL;
Counter sizes;
Counter messages;

bool open_counter(const char* name, Counter& counter) {
  int index = 0;
  if (MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_SIZE, &index) != MPI_SUCCESS) return false;
  MPI_Comm world = MPI_COMM_WORLD;
  if (MPI_T_pvar_handle_alloc(session, index, &world, &counter.handle, &counter.count) !=
      MPI_SUCCESS) {
    return false;
  }
  return MPI_T_pvar_start(session, counter.handle) == MPI_SUCCESS;
}

std::int32_t read(const Counter& counter, std::int64_t* values) {
  std::vector<std::size_t> all(static_cast<std::size_t>(counter.count));
  if (counter.handle == MPI_T_PVAR_HANDLE_NULL ||
      MPI_T_pvar_read(session, counter.handle, all.data()) != MPI_SUCCESS) {
    job().error = "this MPI does not monitor messages";
    return kMpiFailed;
  }
  for (std::size_t i = 0; i < all.size(); ++i) values[i] = static_cast<std::int64_t>(all[i]);
  return kMpiOk;
}

}  // namespace

void ask_for_monitoring() { setenv("OMPI_MCA_pml_monitoring_enable", "2", /*overwrite=*/0); }

void open_monitoring() {
  int provided = 0;
  has_tools = MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS;
  if (!has_tools || MPI_T_pvar_session_create(&session) != MPI_SUCCESS) return;
  int world_size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  for (const auto& [name, counter] : {std::pair("pml_monitoring_messages_size", &sizes),
                                      std::pair("pml_monitoring_messages_count", &messages)}) {
    if (!open_counter(name, *counter) || counter->count != world_size) *counter = {};
  }
}

void close_monitoring() {
  if (session != MPI_T_PVAR_SESSION_NULL) MPI_T_pvar_session_free(&session);
  if (has_tools) MPI_T_finalize();
  has_tools = false;
}

std::int32_t wire(std::int64_t* bytes, std::int64_t* counts) {
  const std::int32_t status = read(sizes, bytes);
  return status == kMpiOk ? read(messages, counts) : status;
}

}  // namespace shardsim_mpi
