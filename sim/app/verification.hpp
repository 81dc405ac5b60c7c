#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "sim/app/oracle.hpp"
#include "sim/experiment/experiment.hpp"

namespace shardsim {

/// All that a run with real numbers is held against: one oracle, or one for each replica where
/// replicas train apart (they are not to be equal, but each is to be what its reference is).
class Verification {
 public:
  /// `experiment` must outlive it. `on_progress`: called now and then; may be empty.
  explicit Verification(const Experiment& experiment,
                        const std::function<void()>& on_progress = {});

  /// By line; see Oracle::Holder.
  [[nodiscard]] std::vector<Oracle*> oracles();
  /// To be called once, after the run.
  void finish();

  // REQUIRES: finished. Of all lines.
  [[nodiscard]] Oracle::Errors errors() const;
  [[nodiscard]] bool passed() const;
  [[nodiscard]] std::string detail() const;

 private:
  std::deque<Oracle> lines_;
};

/// What the oracles are told of the rank at `place`.
[[nodiscard]] Oracle::Holder holder_of(const ParallelPlan& plan, const MeshPlace& place);

}  // namespace shardsim
