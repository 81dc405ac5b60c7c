#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <mpi.h>

#include "backends/mpi/module_table.hpp"

// State shared by the parts of libshardsim-mpi.so: this process's end of the job. Nothing of
// shardsim but the table is known here.
namespace shardsim_mpi {

/// One thing that was asked for: all of its pieces.
struct Request {
  std::vector<MPI_Request> pieces;
  std::vector<std::int64_t> expected_bytes;  // By piece, of receives; empty otherwise.
  bool is_tagged = false;                    // A receive that also takes less.
};

/// Traffic sent by this process, by receiver.
struct Wire {
  std::vector<std::int64_t> bytes;
  std::vector<std::int64_t> messages;
};

struct Job {
  std::vector<MPI_Comm> groups;  // By number; MPI_COMM_NULL: freed.
  std::vector<Request> requests;
  std::vector<std::int64_t> free_requests;
  std::int64_t piece_bytes = std::int64_t{1} << 30;
  MPI_Status taken{};                        // By the last tagged receive.
  Wire wire;                                 // Empty: unknown.
  std::map<int, std::int64_t> extra_pieces;  // By receiver: what is one message to who sends it.
  std::string error;
  std::string library;

  MPI_Comm group(std::int32_t number) { return groups[static_cast<std::size_t>(number)]; }
  std::int64_t keep(Request request);
};

Job& job();

/// The table that `shardsim_mpi_module` returns.
const ShardsimMpiTable& module_table();

/// kMpiOk, or kMpiFailed with the text kept. `what`: the call.
std::int32_t checked(int code, const char* what);

std::int32_t start_collective(std::int32_t group, const ShardsimMpiCollective* call,
                              std::int64_t* request);
void set_reduction(std::int32_t index, ShardsimMpiCombine combine);
void free_reductions();

/// Before MPI_Init; after MPI_Finalize, as it is written there; where MPI does not end well.
void ask_for_monitoring();
void collect_monitoring(int rank, int world_size);
void forget_monitoring();
std::int32_t wire(std::int64_t* bytes, std::int64_t* messages);

}  // namespace shardsim_mpi
