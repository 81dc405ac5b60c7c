#pragma once

#include <string_view>
#include <vector>

#include "strategies/pipeline/schedule.hpp"

// Every shape in which a schedule can run, for tests that go through all of them.
namespace shardsim::test {

inline bool is_legal(std::string_view name, const PipelineShape& shape) {
  const bool looped = name == "interleaved_1f1b" || name == "looped_bfs";
  if (looped != (shape.num_chunks > 1)) return false;
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
