#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/kernel/memory_ledger.hpp"
#include "sim/kernel/time.hpp"

// The events on the traced ranks, with their times. Append-only; the hash that covers every rank is
// rolled elsewhere and needs none of this.
namespace shardsim {

/// One operation on one stream.
struct TraceSlice {
  const char* name = "";  ///< "matmul", "all_reduce"; outlives the run.
  Time begin;
  Time end;
  std::int64_t bytes = 0;  ///< Sent by this rank, payload and padding; 0 for compute.
  std::string label;       ///< "bucket 3"; may be empty.
  /// Equal on all members of one communication, and different for any other. It does not depend on
  /// how ranks interleave. -1 for compute and for batches, which are several communications.
  std::int64_t operation = -1;
};

/// A stream of one rank: "compute", or the name of a communicator's axis. Slices do not overlap
/// and are in order of time.
struct TraceTrack {
  std::string name;
  std::vector<TraceSlice> slices = {};
  bool computes = false;  ///< A stream of computing, and not of a communicator.
};

struct MemoryPoint {
  Time time;
  MemoryCategory category = MemoryCategory::params;
  std::int64_t bytes = 0;  ///< In use in that category from `time` on.
};

struct RankTrace {
  int rank = 0;
  std::string name;                ///< "rank 5 (node 0, gpu 5)".
  std::vector<TraceTrack> tracks;  ///< The compute stream first.
  std::size_t computing = 0;       ///< The track of the stream in use.
  std::vector<MemoryPoint> memory;

  /// Each stream has a track, and stream 0 the first one.
  void use_stream(std::uint32_t stream);
};

}  // namespace shardsim
