#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "sim/hardware/network_model.hpp"

#include "sim/experiment/experiment.hpp"
#include "sim/search/pipeline_stages.hpp"
#include "sim/search/search_request.hpp"

// The end of a candidate's step: what follows the gradients of its last microbatch.
namespace shardsim {

/// Runs the synchronization's own code on one rank, whose neighbours are always in time: buckets
/// are reduced as soon as their gradients can be there, then come norm, optimizer and gathers. As
/// with layers, a run can only take longer. For one thread.
class StepEnds {
 public:
  /// `base` outlives it.
  explicit StepEnds(const SearchBase& base);
  ~StepEnds();

  /// The least time of the candidate's step, in picoseconds. `stages` and `played` are its own.
  /// Throws ScenarioError and UsageError for a candidate that cannot run.
  [[nodiscard]] std::int64_t least_step(const Candidate& candidate, const PipelineStages& stages,
                                        const PlayedPipeline& played);

 private:
  [[nodiscard]] const Experiment& experiment_of(const Candidate& candidate);
  [[nodiscard]] std::int64_t end_of(const ParallelPlan& plan, const PipelineStages& stages,
                                    const RankTimes& times, int rank);

  const SearchBase& base_;
  std::unique_ptr<const Experiment> machine_;
  std::unique_ptr<NetworkModel> network_;
  // Candidates with the same weights on the same ranks synchronize alike.
  std::map<std::array<std::int64_t, 9>, std::unique_ptr<const Experiment>> experiments_;
};

}  // namespace shardsim
