#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include <sys/types.h>

#include "backends/nccl/nccl_abi.hpp"

// A profiler plugin for NCCL that lives in this program (NCCL_PROFILER_PLUGIN=STATIC_PLUGIN) and
// counts what NCCL says it moves. NCCL calls it from threads of its own. Bytes on the wire exist
// only for transports over a network (sockets); between GPUs of one machine NCCL reports none.
namespace shardsim {

struct ProfiledBytes {
  std::int64_t calls = 0;
  /// Bytes of the calls' own buffers: count x size of the type.
  std::int64_t logical_bytes = 0;
  /// Handed to the network by this process's sends.
  std::int64_t wire_bytes = 0;
  std::int64_t wire_messages = 0;
};

/// By NCCL's name of the function ("AllReduce", "Send"); "other" for any it does not know, and for
/// what was sent on behalf of another process. Functions without calls and bytes are left out.
[[nodiscard]] std::map<std::string, ProfiledBytes> profiled_bytes();

/// Whether NCCL has asked for this plugin at all: without, zero bytes mean nothing.
[[nodiscard]] bool profiler_in_use();

/// Starts to count anew. REQUIRES: nothing is under way.
void reset_profiled_bytes();

// --- The interface -----------------------------------------------------------------------------

// NCCL's profiler plugin interface, versions 4 (NCCL 2.27) and 5 (2.28 and, where a plugin has
// nothing newer, later releases), as far as shardsim uses it. Source: profiler_v4.h, profiler_v5.h
// and nccl_profiler.h of the NCCL 2.27 to 2.30 releases.

/// Bits of the mask of events that a plugin asks for, and types of events.
inline constexpr int kProfileCollective = 1 << 1;
inline constexpr int kProfileP2p = 1 << 2;
inline constexpr int kProfileProxyOp = 1 << 3;
inline constexpr int kProfileProxyStep = 1 << 4;

/// ncclProfilerProxyStepSendWait: the network has been given the step's data.
inline constexpr int kProfileSendWait = 9;

/// A communicator's call: one member of a descriptor's union.
struct ProfiledCollective {
  std::uint64_t sequence;
  const char* function;  ///< "AllReduce".
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  const char* datatype;  ///< "ncclFloat32".
  std::uint8_t num_channels;
  std::uint8_t num_warps;
  const char* algorithm;
  const char* protocol;
  void* parent_group;  ///< Version 5; the union has room for it in 4.
};
struct ProfiledP2p {
  const char* function;  ///< "Send", "Recv".
  void* buffer;
  const char* datatype;
  std::size_t count;
  int peer;
  std::uint8_t num_channels;
  void* parent_group;
};
struct ProfiledProxyOp {
  pid_t pid;  ///< Process whose call it serves.
  std::uint8_t channel;
  int peer;
  int num_steps;
  int chunk_bytes;
  int is_send;
};

/// `Type` is uint8_t in version 4, uint64_t in 5; what follows lies at the same places.
template <class Type>
struct ProfilerEvent {
  Type type;
  void* parent;
  int rank;
  union {
    ProfiledCollective collective;
    ProfiledP2p p2p;
    ProfiledProxyOp proxy_op;
  };
};
using ProfilerEventV4 = ProfilerEvent<std::uint8_t>;
using ProfilerEventV5 = ProfilerEvent<std::uint64_t>;
static_assert(offsetof(ProfilerEventV4, parent) == 8 && offsetof(ProfilerEventV5, parent) == 8);
static_assert(offsetof(ProfilerEventV4, collective) == 24);
static_assert(offsetof(ProfilerEventV5, collective) == 24);
static_assert(offsetof(ProfiledCollective, count) == 32 &&
              offsetof(ProfiledCollective, datatype) == 48);
static_assert(offsetof(ProfiledP2p, datatype) == 16 && offsetof(ProfiledP2p, count) == 24);
static_assert(offsetof(ProfiledProxyOp, is_send) == 20);

/// Arguments of an update of a proxy step's state.
union ProfilerStateArguments {
  std::size_t transferred_bytes;
  void* data;
};

/// NCCL's printing function, which is not used.
using ProfilerLogger = void (*)();

struct ProfilerPluginV4 {
  const char* name;
  NcclStatus (*init)(void** context, int* mask, const char* comm_name, std::uint64_t comm_hash,
                     int num_nodes, int num_ranks, int rank, ProfilerLogger logger);
  NcclStatus (*start_event)(void* context, void** handle, ProfilerEventV4* event);
  NcclStatus (*stop_event)(void* handle);
  NcclStatus (*record_event_state)(void* handle, int state, ProfilerStateArguments* arguments);
  NcclStatus (*finalize)(void* context);
};

struct ProfilerPluginV5 {
  const char* name;
  NcclStatus (*init)(void** context, std::uint64_t comm_id, int* mask, const char* comm_name,
                     int num_nodes, int num_ranks, int rank, ProfilerLogger logger);
  NcclStatus (*start_event)(void* context, void** handle, ProfilerEventV5* event);
  NcclStatus (*stop_event)(void* handle);
  NcclStatus (*record_event_state)(void* handle, int state, ProfilerStateArguments* arguments);
  NcclStatus (*finalize)(void* context);
};

}  // namespace shardsim

extern "C" {
// NCCL finds them in the running program by these names.
extern __attribute__((visibility("default"))) shardsim::ProfilerPluginV4 ncclProfiler_v4;
extern __attribute__((visibility("default"))) shardsim::ProfilerPluginV5 ncclProfiler_v5;
}
