#pragma once

#include <string>
#include <vector>

#include "sim/hardware/cluster.hpp"

#include "sim/app/calibrate/nccl_tests_table.hpp"

// What a table is of: the operation, how many ranks on how many nodes. From its own words as far as
// they go, from the command's options for the rest; never guessed where two things fit.
namespace shardsim {

/// What the command's options say; empty and 0: nothing.
struct TestedLayoutOptions {
  std::string operation;
  int ranks = 0;
  int nodes = 0;
};

struct TestedLayout {
  TestedOperation operation = TestedOperation::all_reduce;
  int ranks = 0;
  int nodes = 0;  ///< 0: as many as the ranks fill.
};

/// "16 ranks on 2 nodes". REQUIRES: nodes are known.
[[nodiscard]] std::string words_of(const TestedLayout& layout);

/// Throws ScenarioError E0945 (ranks unknown, one rank, or told twice and differently), E0946 (the
/// operation unknown, told twice and differently, or not one with such a redop and root), E0947
/// (busbw / algbw is not that of the operation on so many ranks); UsageError E1084 for an operation
/// there is none of.
[[nodiscard]] TestedLayout tested_layout_of(const NcclTestsTable& table,
                                            const TestedLayoutOptions& options);

}  // namespace shardsim
