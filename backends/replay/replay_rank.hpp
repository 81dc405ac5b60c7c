#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/kernel/rank_state.hpp"

#include "sim/hardware/kernels/kernel_seconds.hpp"

#include "backends/program/program.hpp"
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

/// Prices of the tables' operations at one speed; empty until asked for.
using ReplayPrices = std::vector<std::optional<Price>>;

/// One rank: its place in its program, and what it has under way.
struct ReplayRank {
  struct Posted {
    ReplayOperation* operation = nullptr;
    std::size_t stream = 0;
  };

  ReplayRank(RankState& state, const RankProgram& program, ReplayPrices& prices);

  RankState& state;
  const RankProgram& program;
  ReplayPrices& prices;
  std::size_t next_step = 0;
  std::vector<ReplayStream> streams;       ///< By the program's group.
  std::vector<Posted> works;               ///< By slot, as the next two.
  std::vector<std::uint32_t> allocations;  ///< Rows.
  std::vector<AllocationMark> marks;
  ReplayOperation* follows = nullptr;  ///< The next call comes behind it.
  ReplayOperation* splits = nullptr;   ///< The split that it waits for.
  ReplayRank* next_waiter = nullptr;

  [[nodiscard]] bool ended() const { return next_step == program.steps.size(); }
};

}  // namespace shardsim
