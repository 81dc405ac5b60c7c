#pragma once

#include <string>
#include <vector>

#include "sim/hardware/cluster.hpp"

#include "sim/accuracy/nccl_tests_table.hpp"

// The operation of a table, and its ranks and nodes. They come from the table's own lines, and from
// the command's options for the rest. They are never guessed if two operations fit.
namespace shardsim {

/// The command's options; empty or 0: not given.
struct TestedLayoutOptions {
  std::string operation;
  int ranks = 0;
  int nodes = 0;
};

struct TestedLayout {
  TestedOperation operation{};
  int ranks = 0;
  int nodes = 0;  ///< 0: as many as the ranks fill.
};

/// "16 ranks on 2 nodes". REQUIRES: nodes are known.
[[nodiscard]] std::string words_of(const TestedLayout& layout);

/// Throws ScenarioError: E0945 (ranks unknown, one rank, or two different numbers given); E0946
/// (the operation unknown, two different ones given, or not one with such a redop and root); E0947
/// (busbw / algbw does not fit the operation and the ranks). Throws UsageError E1084 for an unknown
/// operation.
[[nodiscard]] TestedLayout tested_layout_of(const NcclTestsTable& table,
                                            const TestedLayoutOptions& options);

}  // namespace shardsim
