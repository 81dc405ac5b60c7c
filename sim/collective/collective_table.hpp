#pragma once

#include <string>

#include "sim/collective/collective_run.hpp"

namespace shardsim {

struct Bandwidths {
  double algorithm = 0.0;  ///< GB/s, as nccl-tests: size / time.
  double bus = 0.0;
};
[[nodiscard]] Bandwidths bandwidths_of(const CollectiveSetting& setting, const TestedSize& row,
                                       double seconds);

/// Average busbw over all timed operations, as in the footer of nccl-tests.
[[nodiscard]] double average_bus_bandwidth(const CollectiveSetting& setting,
                                           const CollectiveRun& run);
/// All wrong elements of all rows.
[[nodiscard]] std::int64_t wrong_elements(const CollectiveRun& run);
/// Whether own count and the library's agree where they must.
[[nodiscard]] bool wire_agrees(const CollectiveRun& run);

/// The table of nccl-tests, its columns first and ours after them; "N/A" if the operation does not
/// work so. `backend`: "fiber", "mpi", "nccl".
[[nodiscard]] std::string collective_table(const CollectiveSetting& setting,
                                           const std::string& backend, const CollectiveRun& run);

/// The same as one JSON object, with a newline.
[[nodiscard]] std::string collective_json(const CollectiveSetting& setting,
                                          const std::string& backend, const CollectiveRun& run);

}  // namespace shardsim
