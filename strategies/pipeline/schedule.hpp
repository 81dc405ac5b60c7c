#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/pipeline/action.hpp"

// Pipeline schedules as pure functions: in which order each pipeline rank runs the forwards and
// backwards of its stages. No engine, no communicator and no tensor here, so a schedule can be
// printed, validated (validate.hpp) and timed (timeline.hpp) before anything runs.
//
// A new schedule is one file with one function, and one row in schedule_table.cpp.
//
// Notation of all formulas: p ranks, V chunks per rank, M microbatches, r the rank; F, I, W the
// time of one rank's whole share of a microbatch (all its chunks), B = I + W.
namespace shardsim {

/// The size of a pipeline.
struct PipelineShape {
  int num_ranks = 1;         ///< p
  int num_chunks = 1;        ///< V: model chunks per rank; p * V stages in all.
  int num_microbatches = 1;  ///< M

  friend bool operator==(const PipelineShape&, const PipelineShape&) = default;
};

/// Which stages a rank has. `loop`: chunk * p + rank, so that every stage sends to the next rank
/// and the last rank to the first. `v`: chunks go down and up again, with two of them stages r and
/// 2p - 1 - r, so that rank 0 has the first and the last stage and the turn needs no message.
enum class Placement : std::uint8_t { loop, v };

/// The places of a schedule's cells in its file, so that messages can name them: row r is line
/// r + 1.
struct ScheduleSource {
  std::string file;
  std::vector<std::vector<int>> cells;  ///< [rank][cell]: the cell of its line, counted from 1.
};

/// How many sends a rank may have pending on one edge, where nothing else is said.
inline constexpr int kTwoSends = 2;

/// Per rank the list of its actions, to be done in that order.
struct PipelineSchedule {
  std::string name;
  PipelineShape shape;
  Placement placement = Placement::loop;
  /// Before a rank sends, it waits for the send it posted this many earlier to the same rank in the
  /// same direction; see the protocol in lower.hpp.
  int sends_in_flight = kTwoSends;
  std::vector<std::vector<Action>> actions;      ///< [rank][cell]
  std::shared_ptr<const ScheduleSource> source;  ///< Null: from no file.

  [[nodiscard]] int num_stages() const { return shape.num_ranks * shape.num_chunks; }
  [[nodiscard]] int stage_of(int rank, int chunk) const;
  [[nodiscard]] int rank_of(int stage) const;
  [[nodiscard]] int chunk_of(int stage) const { return stage / shape.num_ranks; }
  /// Whether it contains I and W instead of B.
  [[nodiscard]] bool splits_backward() const;
  /// Whether it contains sends and receives (see lower.hpp).
  [[nodiscard]] bool is_lowered() const;

  /// The source is not compared.
  friend bool operator==(const PipelineSchedule& a, const PipelineSchedule& b) {
    return a.name == b.name && a.shape == b.shape && a.placement == b.placement &&
           a.sends_in_flight == b.sends_in_flight && a.actions == b.actions;
  }
};

/// The schedule of that name, compute actions only. Throws UsageError if there is no such schedule
/// or it cannot run in this shape, LimitError if its lists would not fit into memory; the message
/// says what is wrong with which value, the fix what can be done.
[[nodiscard]] PipelineSchedule make_schedule(std::string_view name, const PipelineShape& shape);

/// All names, simplest schedule first. schedule_row.hpp says more about each.
[[nodiscard]] std::vector<std::string_view> schedule_names();

}  // namespace shardsim
