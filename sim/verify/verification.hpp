#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "sim/experiment/experiment.hpp"
#include "sim/verify/oracle.hpp"

namespace shardsim {

/// The checks of a run with real numbers: one oracle, or one per replica if replicas train apart.
/// Such replicas need not be equal, but each must equal its reference.
class Verification {
 public:
  /// `experiment` must outlive it. `on_progress`: called now and then; may be empty.
  explicit Verification(const Experiment& experiment,
                        const std::function<void()>& on_progress = {});

  /// By line; see Oracle::Holder.
  [[nodiscard]] std::vector<Oracle*> oracles();
  /// Must be called once, after the run.
  void finish();

  // REQUIRES: finished. The results cover all lines.
  [[nodiscard]] Oracle::Errors errors() const;
  [[nodiscard]] bool passed() const;
  [[nodiscard]] std::string detail() const;

 private:
  std::deque<Oracle> lines_;
};

/// The oracles' description of the rank at `place`.
[[nodiscard]] Oracle::Holder holder_of(const ParallelPlan& plan, const MeshPlace& place);

}  // namespace shardsim
