#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/kernel/rank_state.hpp"

#include "sim/hardware/kernels/kernel_seconds.hpp"

#include "backends/program/program_tables.hpp"
#include "backends/replay/replay_code.hpp"
#include "backends/replay/replay_operation.hpp"

namespace shardsim {

/// One member's stream of a group.
struct ReplayStream {
  ReplayGroup* group = nullptr;
  int member = 0;
  ReplayOperation* last = nullptr;  ///< The last operation, while it may be unresolved.
  Time free;
  std::int64_t next_sequence = 0;  ///< The number of its next collective.
  int track = -1;                  ///< In the rank's trace; -1: not traced.
};

/// One rank: its place in its program, and what it has under way.
struct ReplayRank {
  struct Posted {
    ReplayOperation* operation = nullptr;
    std::size_t stream = 0;
  };

  ReplayRank(RankState& state, const RankProgram& program, const std::vector<Price>& prices);

  RankState& state;
  const RankProgram& program;
  const std::vector<Price>& prices;  ///< By row of operations, at the rank's speed.
  /// For ranks whose memory and trace nobody watches; null: all steps are done one by one.
  const ReplayCode* code = nullptr;
  const ProgramDigest* digest = nullptr;  ///< With the code.
  std::size_t num_waits = 0;
  std::size_t next_step = 0;
  std::vector<ReplayStream> streams;       ///< By the program's group.
  std::vector<Posted> works;               ///< By slot, as the next two.
  std::vector<std::uint32_t> allocations;  ///< Rows.
  std::vector<AllocationMark> marks;
  ReplayOperation* follows = nullptr;  ///< The next call comes behind it.
  ReplayOperation* splits = nullptr;   ///< The split that it waits for.
  ReplayRank* next_waiter = nullptr;

  [[nodiscard]] const std::vector<ProgramStep>& steps() const {
    return code == nullptr ? program.steps : code->steps;
  }
  [[nodiscard]] bool ended() const { return next_step == steps().size(); }
};

}  // namespace shardsim
