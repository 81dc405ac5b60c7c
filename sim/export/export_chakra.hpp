#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/export/recorded_run.hpp"

// Chakra execution traces (MLCommons, schema 0.0.4), which ASTRA-sim and others run: one file per
// rank, a message GlobalMetadata and a message Node per operation, each after its length.
//
// Compute nodes carry their time. For simulators that price operations by a roofline, they also
// carry the operations and bytes that keep the device busy for that time. Dependencies are those
// seen in the run: the order of each stream, the computation after which a communication was
// issued, and the operations for whose end another one waited.
namespace shardsim {

/// The file of one rank.
[[nodiscard]] std::string to_chakra(const RecordedRun& run, int rank);

/// CollectiveCommType of a call by its name in traces. Throws Error E1375 (internal) for a name
/// that the schema does not have.
[[nodiscard]] std::int64_t chakra_collective_type(std::string_view name);

/// {"0": [0, 1, ...], ...}: members of the groups that nodes name by "pg_name".
[[nodiscard]] std::string chakra_groups(const RecordedRun& run);

}  // namespace shardsim
