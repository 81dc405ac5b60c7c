#pragma once

#include <string_view>
#include <vector>

#include "sim/programs/chakra_reader.hpp"
#include "sim/programs/program_set.hpp"

// Program files of single ranks, in which groups are lists of ranks (docs/guide/program-format.md,
// "Records of single ranks"), and the programs of all ranks that they make.
namespace shardsim {

/// Whether a program file is such a record.
[[nodiscard]] bool looks_like_record(std::string_view text);

/// Ranks without a record do what a recorded rank does: one that has their places in all groups
/// over which messages go, and of such the one with the most equal places otherwise. Where records
/// differ, they do what most do, or what two roots of the same groups do. `files`: their ranks are
/// not looked at. Throws UsageError: E1378 as read_program_file, E1381 for groups that
/// lie irregularly, E1383 for ranks that no record is good for, E1386 where records of ranks in the
/// same places differ, and no more than half of them are equal.
[[nodiscard]] ProgramSet merge_records(const std::vector<TraceFile>& files);

}  // namespace shardsim
