#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/hardware/collective_rows.hpp"

#include "sim/harness/check.hpp"
#include "tests/harness_drawn/drawn_program.hpp"

// A program rank by rank: all calls with their arguments, and all waits. Here a change of one call
// of one rank is planted.
namespace shardsim::drawn {

/// Elements of a buffer of the rank.
struct Elements {
  int buffer = -1;  ///< -1: none.
  std::int64_t first = 0;
  std::int64_t count = 0;

  friend bool operator==(const Elements&, const Elements&) = default;
};

/// A send or receive.
struct PlannedHalf {
  bool sends = false;
  int peer = 0;
  Elements data;

  friend bool operator==(const PlannedHalf&, const PlannedHalf&) = default;
};

struct PlannedCall {
  enum class Form : std::uint8_t { split, collective, message, batch, tagged };
  Form form = Form::collective;
  int group = 0;      ///< Number of the split that has made it; 0: the world.
  int statement = 0;  ///< Its line in reports.
  CollectiveKind kind = CollectiveKind::barrier;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  int tag = 0;
  int label = 0;
  TrafficClass traffic = TrafficClass::payload;
  int after = -1;  ///< The work's name; -1: none.
  Elements output;
  Elements input;
  std::vector<std::int64_t> counts;  ///< CallOptions::counts, or what an all_to_all sends.
  std::vector<std::int64_t> recv_counts;
  std::vector<PlannedHalf> halves;  ///< One, or those of a batch.
  int color = 0;                    ///< For a split,
  int key = 0;
  int makes = 0;  ///< and the number of the group it makes.
};

struct Action {
  enum class Kind : std::uint8_t {
    call,
    wait,
    read,        ///< Through get.
    write,       ///< Through set, of another value.
    write_same,  ///< By a pointer from before, of the value that is there.
    write_raw,   ///< By a pointer from before, of another value.
    read_raw,    ///< By a pointer from before; `work` must bring the same value.
  };
  Kind kind = Kind::call;
  int work = 0;  ///< The name of what is posted or waited for.
  PlannedCall call;
  Elements part;  ///< It is touched.
};

struct BufferSize {
  std::int64_t count = 0;
  DType dtype = DType::fp32;
};

struct RankPlan {
  std::vector<BufferSize> buffers;
  std::vector<Action> actions;
};

struct ProgramPlan {
  std::vector<RankPlan> ranks;
  /// World ranks of the group with this number that has this rank; empty: it is in none.
  [[nodiscard]] const std::vector<int>& members(int group, int rank) const {
    return groups[static_cast<std::size_t>(group)][static_cast<std::size_t>(rank)];
  }
  std::vector<std::vector<std::vector<int>>> groups;  ///< By number and rank.
};

[[nodiscard]] ProgramPlan plan_of(const DrawnProgram& program);
/// To be checked on as many ranks as the plan has. It does nothing on another number.
[[nodiscard]] Program program_of(const ProgramPlan& plan);
/// All actions, one line each.
[[nodiscard]] std::string to_text(const ProgramPlan& plan);

[[nodiscard]] DType dtype_of(int number);
[[nodiscard]] const char* label_of(int number);

}  // namespace shardsim::drawn
