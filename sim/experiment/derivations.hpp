#pragma once

namespace shardsim {

/// How often this thread has derived each part of an Experiment. Nothing in the product reads it:
/// tests compare it with the number of runs.
struct Derivations {
  int experiments = 0;
  int clusters = 0;  ///< With their software and NCCL's platform.
  int faults = 0;
  int options = 0;  ///< Model, mesh, training and synchronization.
  int optimizers = 0;
  int plans = 0;
  int alike = 0;
  int foldings = 0;
  int assumptions = 0;

  [[nodiscard]] friend bool operator==(const Derivations&, const Derivations&) = default;
};

[[nodiscard]] inline Derivations& derivations() {
  static thread_local Derivations counts;
  return counts;
}

}  // namespace shardsim
