#pragma once

#include <optional>

#include "sim/kernel/diagnosis.hpp"
#include "sim/kernel/time.hpp"

// The engine asks these while it runs, on the thread of the run.
namespace shardsim {

class Engine;

/// Says why nothing can go on; implemented by the backend, which knows what ranks wait for.
class StallExplainer {
 public:
  virtual ~StallExplainer() = default;
  [[nodiscard]] virtual Diagnosis explain(const Engine& engine) = 0;
  /// A rank has failed, and those that wait are about to be cancelled.
  virtual void note_waiting(const Engine& /*engine*/) {}
};

/// Decides open choices of operations: which of several messages a receive takes.
class Arbiter {
 public:
  virtual ~Arbiter() = default;
  /// Whether there is a choice. Without one `decide` does nothing and need not be called.
  [[nodiscard]] bool has_choices() const { return num_choices_ > 0; }
  /// Called when no rank is ready. `next`: when the operation starts that would be launched now, or
  /// a rank goes on behind one that has been, if there is such a thing. `look`: when a rank looks
  /// next whether an operation has ended. Decides one thing and returns true, or leaves it at that.
  virtual bool decide(std::optional<Time> next, std::optional<Time> look) = 0;

 protected:
  int num_choices_ = 0;
};

/// Events that are no operations, and for which ranks wait: messages of other processes.
class OutsideEvents {
 public:
  virtual ~OutsideEvents() = default;
  /// Called when no rank is ready and nothing can be launched, if ranks wait outside. Blocks until
  /// it has called Engine::come_back for at least one of them. If it throws, the run ends with
  /// that.
  virtual void wait_for_ranks() = 0;
};

}  // namespace shardsim
