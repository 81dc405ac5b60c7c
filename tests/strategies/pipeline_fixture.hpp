#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "strategies/pipeline/schedule.hpp"

// Every shape in which a schedule can run, for tests that go through all of them.
namespace shardsim::test {

inline bool is_legal(std::string_view name, const PipelineShape& shape) {
  const bool looped = name == "interleaved_1f1b" || name == "looped_bfs";
  if (!looped && shape.num_chunks > 1) return false;
  return name != "interleaved_1f1b" || shape.num_microbatches % shape.num_ranks == 0;
}

/// All schedules for p in 1..8, V in 1..4, M in 1..32, where they are legal.
template <class Visit>
void for_each_schedule(Visit visit) {
  for (const std::string_view name : schedule_names()) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (int chunks = 1; chunks <= 4; ++chunks) {
        for (int microbatches = 1; microbatches <= 32; ++microbatches) {
          const PipelineShape shape{ranks, chunks, microbatches};
          if (is_legal(name, shape)) visit(make_schedule(name, shape));
        }
      }
    }
  }
}

/// What every rank waits in total, by the formulas of docs/guide/pipeline-schedules.md: F, I and W
/// of a rank's whole share of a microbatch, without message times. They are the published ones, but
/// for M < p (looped_bfs, zb_h1) and for a W longer than F or I (zb_h1), where these are our own.
/// Derivations stand in the files of the schedules.
inline std::int64_t expected_idle(const PipelineSchedule& schedule, std::int64_t f, std::int64_t i,
                                  std::int64_t w) {
  const std::int64_t p = schedule.shape.num_ranks;
  const std::int64_t v = schedule.shape.num_chunks;
  const std::int64_t m = schedule.shape.num_microbatches;
  if (schedule.name == "interleaved_1f1b") return (p - 1) * (f + i + w) / v;
  if (schedule.name == "looped_bfs") {
    const std::int64_t late = std::max<std::int64_t>(0, p - m);
    return (p - 1 + (v - 1) * late) * (f + i + w) / v;
  }
  if (schedule.name == "zb_h1") {
    return (p - 1) * (f + i) - (std::min(m, p) - 1) * std::min({f, i, w});
  }
  return (p - 1) * (f + i + w);
}

/// Activations that a rank has in flight at once, in chunks.
inline int expected_in_flight(const PipelineSchedule& schedule, int rank) {
  const auto [p, v, m] = schedule.shape;
  if (schedule.name == "1f1b") return std::min(m, p - rank);
  if (schedule.name == "zb_h1") return std::min(m, p);
  if (schedule.name == "interleaved_1f1b") {
    return std::min(m * v, (v - 1) * p + 2 * (p - 1 - rank) + 1);
  }
  return m * v;
}

/// Stages 0..p-1 down the ranks and p..2p-1 up again: no schedule of the table has that yet.
inline PipelineSchedule v_shaped_gpipe(int ranks, int microbatches) {
  PipelineSchedule schedule{"v_gpipe", {ranks, 2, microbatches}, Placement::v, microbatches, {}};
  for (int rank = 0; rank < ranks; ++rank) {
    schedule.actions.emplace_back();
    for (const ActionKind kind : {ActionKind::forward, ActionKind::backward}) {
      for (const int turn : {0, 1}) {
        const int chunk = kind == ActionKind::forward ? turn : 1 - turn;
        for (int m = 0; m < microbatches; ++m) {
          schedule.actions.back().push_back(make_action(kind, chunk, m));
        }
      }
    }
  }
  return schedule;
}

}  // namespace shardsim::test
