#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/mesh.hpp"
#include "strategies/model/make_model.hpp"

#include "scenarios/enumerations.hpp"
#include "sim/experiment/experiment.hpp"

// Candidates: layouts of a training on a machine, each the decisions of a search. Their set is
// those that the scenario's reader accepts, found by divisibility instead of by reading. Five
// choices are not made. Four change nothing, or improve nothing; slices of experts seldom do:
// - sequence_parallel is on where tp is above 1, unless it is fixed;
// - etp is 1, unless it is fixed;
// - a zero_stage above 0 needs more than one shard, and stage 0 has no dp_replicate: the same run;
// - chunks of interleaved schedules divide the layers evenly where pp does; else, for each size of
//   the largest chunk, a rank has as few as can be (other splits are a matter of stage_layers,
//   which a search leaves alone);
// - looped_bfs with one chunk is gpipe, interleaved_1f1b with one is 1f1b.
namespace shardsim {

/// One layout. Values are those of the scenario's fields of the same names. `schedule` refers to
/// static storage.
struct Candidate {
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t cp = 1;
  std::int64_t ep = 1;
  std::int64_t etp = 1;
  std::int64_t vpp = 1;
  std::int64_t dp_replicate = 1;
  std::int64_t dp_shard = 1;
  std::int64_t micro_batch_size = 1;
  std::int64_t num_microbatches = 1;
  int zero_stage = 0;
  bool sequence_parallel = false;
  std::string_view schedule = "none";
  Recompute recompute = Recompute::none;

  [[nodiscard]] std::int64_t dp() const { return dp_replicate * dp_shard; }
  [[nodiscard]] std::int64_t num_stages() const { return pp * vpp; }
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

/// Layouts that split the model in the same way: one row of a ranking, which its best stands for.
struct LayoutFamily {
  std::int64_t tp = 1;
  std::int64_t cp = 1;
  std::int64_t pp = 1;
  friend bool operator==(const LayoutFamily&, const LayoutFamily&) = default;
};
[[nodiscard]] inline LayoutFamily family_of(const Candidate& candidate) {
  return {candidate.tp, candidate.cp, candidate.pp};
}

/// As `--set` takes them. The reader derives the others (dp_shard, num_microbatches).
[[nodiscard]] std::vector<std::string> overrides_of(const Candidate& candidate);

/// "tp8 pp4 dp4 zero1 1f1b mb1 selective": fields that are 1, off or none are left out.
[[nodiscard]] std::string words_of(const Candidate& candidate);

[[nodiscard]] MeshShape mesh_shape_of(const Candidate& candidate, RankOrder order);

/// Values that a decision may take, in words; a missing name is free.
using FixedAxes = std::map<std::string, std::vector<std::string>>;

/// Help for a word that is none of `names`: the nearest of them, and `all` with the whole list.
[[nodiscard]] std::string help_for_word(const std::string& word,
                                        const std::vector<std::string>& names, const char* all);

/// With small letters of ASCII.
[[nodiscard]] std::string lower_case(std::string word);

/// Names that may be fixed: tp, pp, cp, ep, etp, vpp, dp_replicate, zero_stage, micro_batch_size,
/// sequence_parallel, schedule, recompute.
[[nodiscard]] const std::vector<std::string>& axis_names();

/// "tp=8", "tp=4,8", "parallelism.tp=8" -> an entry of `fixed`. Throws UsageError E1325,
/// also for an axis that has one.
void fix_axis(const std::string& words, FixedAxes& fixed);

/// All candidates of a space that is small, in a fixed order. As LayoutSpace, which a search reads.
[[nodiscard]] std::vector<Candidate> enumerate_candidates(const Experiment& base,
                                                          const FixedAxes& fixed);

}  // namespace shardsim
