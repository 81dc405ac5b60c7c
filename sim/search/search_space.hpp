#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/experiment/experiment.hpp"
#include "sim/search/candidate.hpp"

// The set of candidates: those that the scenario's reader accepts, found by divisibility instead of
// by reading. Four choices that change nothing, or improve nothing, are not made:
// - sequence_parallel is on where tp is above 1, unless it is fixed;
// - a zero_stage above 0 needs more than one shard, and stage 0 has no dp_replicate: the same run;
// - chunks of interleaved schedules divide the layers evenly (other splits are a matter of
//   stage_layers, which a search leaves alone);
// - looped_bfs with one chunk is gpipe, interleaved_1f1b with one is 1f1b.
namespace shardsim {

/// Values that a decision may take, in words; a missing name is free.
using FixedAxes = std::map<std::string, std::vector<std::string>>;

/// Names that may be fixed: tp, pp, cp, ep, vpp, dp_replicate, zero_stage, micro_batch_size,
/// sequence_parallel, schedule, recompute.
[[nodiscard]] const std::vector<std::string>& axis_names();

/// "tp=8", "tp=4,8", "parallelism.tp=8" -> an entry of `fixed`. Throws UsageError E1325.
void fix_axis(const std::string& words, FixedAxes& fixed);

/// All candidates, in a fixed order. `base`: the model, the machine and the batch. Throws
/// LimitError E1329 if there are more than a search holds in memory, and UsageError E1324 if there
/// is none.
[[nodiscard]] std::vector<Candidate> enumerate_candidates(const Experiment& base,
                                                          const FixedAxes& fixed);

}  // namespace shardsim
