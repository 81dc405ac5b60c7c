#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "backends/nccl/profiler_abi.hpp"

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

}  // namespace shardsim

extern "C" {
// NCCL finds them in the running program by these names.
extern __attribute__((visibility("default"))) shardsim::ProfilerPluginV4 ncclProfiler_v4;
extern __attribute__((visibility("default"))) shardsim::ProfilerPluginV5 ncclProfiler_v5;
}
