#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/programs/trace_link.hpp"

// Chakra's execution traces (MLCommons), as shardsim, ASTRA-sim's examples and the converter of
// PyTorch's traces write them: protobuf, one file for each rank.
namespace shardsim {

/// The file of one rank.
struct TraceFile {
  int rank = 0;
  std::string path;
  std::string bytes;
};

/// Whether a file begins with Chakra's metadata.
[[nodiscard]] bool looks_like_chakra(std::string_view bytes);

/// The traces of some ranks. `groups`: the text of comm_groups.json; empty: none, and all
/// communicate with all but where the trace has process groups. Notes say what is missing, and
/// which part of the recorded time is priced or taken over. Throws UsageError: E1382 with the place
/// for bytes that are no such trace, E1381 for bad groups.
[[nodiscard]] TraceSet read_chakra(const std::vector<TraceFile>& files, const std::string& groups);

}  // namespace shardsim
