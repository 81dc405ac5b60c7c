#pragma once

#include <cstddef>
#include <vector>

#include "backends/program/program.hpp"

namespace shardsim {

/// The programs of all ranks of a run.
struct RankPrograms {
  std::vector<RankProgram> programs;  ///< With the same tables.
  std::vector<int> of_rank;           ///< By rank, which of the programs it has, or would have.
  int neighbours = 1;                 ///< Blocks of so many ranks communicate most.

  [[nodiscard]] const RankProgram& program_of(int rank) const {
    return programs[static_cast<std::size_t>(of_rank[static_cast<std::size_t>(rank)])];
  }
};

}  // namespace shardsim
