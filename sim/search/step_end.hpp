#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "sim/hardware/network_model.hpp"

#include "sim/experiment/experiment.hpp"
#include "sim/search/pipeline_stages.hpp"
#include "sim/search/search_request.hpp"

// A candidate's step with the synchronization of its weights and gradients, up to its end.
namespace shardsim {

/// Runs the synchronization's own code on one rank of each pipeline stage, whose neighbours in
/// other groups are always in time, around its schedule: gathers and reductions of each microbatch
/// (ZeRO-2 and 3) or of the last one, then norm, optimizer and gathers. As with layers, a run can
/// only take longer. For one thread.
class StepEnds {
 public:
  /// `machine`: the experiment of the base. Both outlive it.
  StepEnds(const SearchBase& base, const Experiment& machine);
  ~StepEnds();

  /// The least time of the candidate's step, in picoseconds; 0 for one that cannot run. `stages`:
  /// its own. `message`: the least time of one between them.
  [[nodiscard]] std::int64_t least_step(const Candidate& candidate, const PipelineStages& stages,
                                        std::int64_t message);

 private:
  [[nodiscard]] const Experiment& experiment_of(const Candidate& candidate);
  [[nodiscard]] std::int64_t play(const Candidate& candidate, const PipelineStages& stages,
                                  std::int64_t message);

  const SearchBase& base_;
  const Experiment& machine_;
  std::unique_ptr<NetworkModel> network_;
  // Candidates with the same weights on the same ranks synchronize alike.
  std::map<std::array<std::int64_t, 10>, std::unique_ptr<const Experiment>> experiments_;
};

}  // namespace shardsim
