#pragma once

#include "strategies/gradient_sync/gradient_sync.hpp"

namespace shardsim {

/// The update of replicas that train apart, after their own update when a period ends. They average
/// the weights that each owns (a shard if weights are sharded): one all_reduce over the replicas
/// per period, in the master dtype. See LocalTraining for the two rules and their sources.
///
/// DiLoCo keeps, in the ledger's optimizer category, the weights of the last average and the outer
/// momentum; local SGD keeps nothing.
class OuterUpdate {
 public:
  /// `total`: elements that this rank owns of all chunks, in flat buffers like its other state.
  OuterUpdate(const SyncPlan& plan, Runtime& runtime, const Mesh& mesh, std::int64_t total);

  /// Whether update number `step`, counted from 1, ends a period.
  [[nodiscard]] bool is_due(std::int64_t step) const {
    return plan_.local.acts() && step % plan_.local.sync_period == 0;
  }
  /// A part of a chunk, in all its places; undefined where it is not kept.
  struct Part {
    Tensor master;    ///< The replica's own weights; those of the average afterwards.
    Tensor start;     ///< Weights at the start of the period.
    Tensor momentum;  ///< Momentum of the outer optimizer.
  };
  void apply(const Part& part, const CallOptions& options);

  [[nodiscard]] const Tensor& start() const { return start_; }
  [[nodiscard]] const Tensor& momentum() const { return momentum_; }

 private:
  const SyncPlan& plan_;
  Runtime& runtime_;
  const Mesh& mesh_;
  Tensor start_;
  Tensor momentum_;
};

}  // namespace shardsim
