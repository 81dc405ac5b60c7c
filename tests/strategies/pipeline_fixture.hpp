#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "strategies/pipeline/schedule_row.hpp"

// Every shape in which a schedule can run, for tests that go through all of them.
namespace shardsim::test {

inline bool is_v_shaped(std::string_view name) {
  return name == "zb_v" || name == "v_half" || name == "v_min" || name == "dualpipe_v";
}

inline bool goes_in_rounds(std::string_view name) {
  return name == "interleaved_1f1b" || name == "combined_1f1b";
}

inline bool is_legal(std::string_view name, const PipelineShape& shape) {
  const auto [p, v, m] = shape;
  if (is_v_shaped(name)) return v == 2 && m >= (name == "dualpipe_v" ? 2 * p : 2 * p - 1);
  if (goes_in_rounds(name)) return m % p == 0;
  if (name == "looped_bfs") return true;
  return v == 1 && (name != "zb_h2" || m >= 2 * p - 1);
}

/// The number of boundaries of stages that lie between ranks; a microbatch crosses each once each
/// way.
inline int num_boundaries(const PipelineSchedule& schedule) {
  const auto [p, v, m] = schedule.shape;
  if (p == 1) return 0;
  return schedule.placement == Placement::v ? v * (p - 1) : p * v - 1;
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

/// The total wait of every rank, by the formulas of docs/guide/pipeline-schedules.md. F, I and W
/// are those of a rank's whole share of a microbatch, without message times. The formulas are the
/// published ones, with two exceptions. They are our own for M < p (looped_bfs, zb_h1) and for a W
/// longer than F or I (zb_h1, zb_h2). They are also our own for v_half and v_min, of which only
/// shares of 1f1b's are published. Derivations stand in the files of the schedules. None where
/// there is no formula.
inline std::optional<std::int64_t> expected_idle(const PipelineSchedule& schedule, std::int64_t f,
                                                 std::int64_t i, std::int64_t w) {
  const std::int64_t p = schedule.shape.num_ranks;
  const std::int64_t v = schedule.shape.num_chunks;
  const std::int64_t m = schedule.shape.num_microbatches;
  if (is_v_shaped(schedule.name)) {
    if (f != i || i != w) return std::nullopt;
    const std::int64_t chunk = f / v;
    if (p == 1) return 0;
    if (schedule.name == "zb_v") return (p - 1) * chunk;
    if (schedule.name == "dualpipe_v") return 2 * (p - 1) * chunk;  // F&B + B - 3W, each chunk's.
    if (schedule.name == "v_half") return (3 * (p - 1) - p % 2) * chunk;
    return (4 * (p - 1) + (p % 3 == 0 ? 1 : -1)) * chunk;
  }
  if (goes_in_rounds(schedule.name)) return (p - 1) * (f + i + w) / v;
  if (schedule.name == "looped_bfs") {
    const std::int64_t late = std::max<std::int64_t>(0, p - m);
    return (p - 1 + (v - 1) * late) * (f + i + w) / v;
  }
  if (schedule.name == "zb_h1") {
    return (p - 1) * (f + i) - (std::min(m, p) - 1) * std::min({f, i, w});
  }
  if (schedule.name == "zb_h2") return (p - 1) * std::max(f, f + i - 2 * std::min({f, i, w}));
  return (p - 1) * (f + i + w);
}

/// The wait of the worst rank between its first start and its last end. None where expected_idle is
/// none, and where a W is longer than F or I.
inline std::optional<std::int64_t> expected_idle_in_span(const PipelineSchedule& schedule,
                                                         std::int64_t f, std::int64_t i,
                                                         std::int64_t w) {
  if (schedule.name.starts_with("zb_h") && w > std::min(f, i)) return std::nullopt;
  if (schedule.name == "zb_h2") {
    return (schedule.shape.num_ranks - 1) * (f + i - 2 * w);
  }
  const std::optional<std::int64_t> idle = expected_idle(schedule, f, i, w);
  if (schedule.name == "zb_v" && idle) return 0;
  return idle;  // Rank 0 is the first to start and the last to end.
}

/// Activations that the rank has in flight at once, in chunks; none where only the worst rank's are
/// known.
inline std::optional<int> expected_in_flight(const PipelineSchedule& schedule, int rank) {
  const auto [p, v, m] = schedule.shape;
  if (schedule.name == "zb_h2") return 2 * p - 1;
  if (schedule.name == "zb_v") return 2 * p;
  if (schedule.name == "dualpipe_v") return 2 * p + 1;
  if (schedule.name == "v_half") return 2 * (p / 2 + 1);
  if (schedule.name == "v_min") return std::nullopt;
  if (schedule.name == "1f1b") return std::min(m, p - rank);
  if (schedule.name == "zb_h1") return std::min(m, p);
  if (goes_in_rounds(schedule.name)) {
    const int of_block = schedule.name == "combined_1f1b" ? 1 : 0;
    return std::min(m * v, (v - 1) * p + 2 * (p - 1 - rank) + 1 + of_block);
  }
  return m * v;
}

/// Those of the worst rank.
inline int expected_peak_in_flight(const PipelineSchedule& schedule) {
  const int p = schedule.shape.num_ranks;
  if (schedule.name == "v_min") return 2 * ((p + 1) / 3 + 1);
  int most = 0;
  for (int rank = 0; rank < p; ++rank) most = std::max(most, *expected_in_flight(schedule, rank));
  return most;
}

/// gpipe with stages 0..p-1 down the ranks and p..2p-1 up again.
inline PipelineSchedule v_shaped_gpipe(int ranks, int microbatches) {
  PipelineSchedule schedule{"v_gpipe", {ranks, 2, microbatches}, Placement::v, microbatches, {},
                            nullptr};
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
