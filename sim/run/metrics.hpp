#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/program/program.hpp"
#include "backends/world.hpp"

#include "strategies/training/train.hpp"

#include "reports/result.hpp"
#include "scenarios/machine_spec.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/device_memory.hpp"
#include "sim/verify/oracle.hpp"

// From counters to the result's metrics, checks and verdicts. Times are those of the last step;
// traffic is per step; memory is over the whole run.
namespace shardsim {

// --- The record of a run -----------------------------------------------------------------------

/// The clock and the time counters of a rank at a moment.
struct RankMoment {
  Time clock;
  TimeSplit split;
  Time comm_busy;
};

/// The time of the pipeline on a rank: from the first start of its first microbatch to the end of
/// its last, and the computing time between.
struct PipelineSpan {
  Time begin;
  Time end;
  Time busy;
};

/// The record of a run besides counters: every rank's clock when its last step began and ended, the
/// skipped steps, and the oracle's results. One per run; each rank reports to it through an
/// observer.
class RunRecord {
 public:
  /// `oracles`: by Holder::line; empty: none. `knows_routing`: learned routing follows from data,
  /// or from a record; else it is assumed.
  RunRecord(const World& world, std::int64_t steps, std::vector<Oracle*> oracles,
            bool knows_routing);

  /// A rank comes to a mark.
  void note(int rank, const ProgramMark& mark);

  [[nodiscard]] const RankMoment& last_step_begin(int rank) const { return begin_[place_of(rank)]; }
  [[nodiscard]] const RankMoment& last_step_end(int rank) const { return end_[place_of(rank)]; }
  /// The span in the last step.
  [[nodiscard]] const PipelineSpan& pipeline_span(int rank) const {
    return pipeline_[place_of(rank)];
  }
  /// Equal on all ranks; the loss scale is that after the last step.
  [[nodiscard]] std::int64_t skipped_steps() const { return skipped_steps_; }
  [[nodiscard]] bool last_step_skipped() const { return last_step_skipped_; }
  [[nodiscard]] double loss_scale() const { return loss_scale_; }
  [[nodiscard]] bool knows_routing() const { return knows_routing_; }
  /// The rank whose last step ends last; of equal ranks, the lowest.
  [[nodiscard]] int last_rank() const;

  /// The observer of one rank.
  class Observer final : public TrainingObserver {
   public:
    Observer(RunRecord& record, const Oracle::Holder& holder) : record_(record), holder_(holder) {}
    void step_begins(std::int64_t step) override;
    void compute_begins(std::int64_t step) override;
    void compute_ends(std::int64_t step) override;
    void gradients_ready(std::int64_t step, const GradientSync& sync) override;
    void step_decided(std::int64_t step, bool skipped, double next_scale) override;
    void norm_ready(std::int64_t step, double norm) override;
    void step_ends(std::int64_t step, const GradientSync& sync,
                   std::optional<double> loss) override;

   private:
    void note(ProgramMark::Kind kind, std::int64_t step);
    [[nodiscard]] Oracle* oracle() const {
      if (record_.oracles_.empty()) return nullptr;
      return record_.oracles_[static_cast<std::size_t>(holder_.line)];
    }

    RunRecord& record_;
    Oracle::Holder holder_;
  };

 private:
  [[nodiscard]] std::size_t place_of(int rank) const { return world_.place_of(rank); }
  [[nodiscard]] RankMoment moment(int rank) const {
    const RankState& state = world_.rank(rank);
    return {state.now(), state.split(), world_.comm_busy(rank)};
  }

  const World& world_;
  std::int64_t last_step_;
  std::vector<Oracle*> oracles_;
  bool knows_routing_;
  std::vector<RankMoment> begin_;  // By place of a rank that runs, as the next two.
  std::vector<RankMoment> end_;
  std::vector<PipelineSpan> pipeline_;
  std::int64_t skipped_steps_ = 0;
  bool last_step_skipped_ = false;
  double loss_scale_ = 1.0;
};

// --- Figures and verdicts ----------------------------------------------------------------------

/// Elements of a model's tensors, summed over what it allocates: no formula stands between.
struct ParameterCounts {
  std::int64_t all = 0;     ///< With the biases of the choice of experts, which nothing trains.
  std::int64_t active = 0;  ///< Without those of experts that a token does not choose.
  std::int64_t ahead = 0;   ///< Those of multi-token prediction, which the others leave out.
};
[[nodiscard]] ParameterCounts parameter_counts(const Experiment& experiment);

/// Bytes by category on the rank with the largest peak, at that peak; of equal ranks, the lowest.
[[nodiscard]] MemoryUse memory_of_the_fullest(const World& world);

[[nodiscard]] std::vector<Metric> metrics_of(const Experiment& experiment, const World& world,
                                             const DeviceMemory& memory, const RunRecord& record,
                                             const Verification* oracle);

/// The axis of the result that counts the traffic of a communicator of this name; "none" for the
/// world.
[[nodiscard]] std::string_view axis_of(const std::string& communicator);

/// All sent bytes are received, by communicator and along every ring.
[[nodiscard]] Check conservation_check(const World& world);
[[nodiscard]] Check oracle_check(const Verification& oracle);

[[nodiscard]] std::vector<ExpectationResult> judge(const std::vector<Expectation>& expectations,
                                                   const Result& result);

/// Warnings about the effect of `faults` on numbers that are easily misread. `result` has the
/// metrics of the run.
[[nodiscard]] std::vector<std::string> fault_warnings(const FaultSpec& faults,
                                                      const Result& result);

}  // namespace shardsim
