#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/decision_log.hpp"

#include "sim/experiment/experiment.hpp"

namespace shardsim {

/// The decisions of an experiment with learned routing under kExpertTokens, and the validity of a
/// record of them. Ranks that expect other rows than they receive would hang.
class ExpertTokens {
 public:
  explicit ExpertTokens(const Experiment& experiment);

  /// Whether there are such decisions.
  [[nodiscard]] static bool are_decided(const Experiment& experiment);
  /// Decisions of a rank in all steps; 0 on a stage without experts.
  [[nodiscard]] std::size_t num_decisions(int rank) const;
  /// Numbers in each decision: tokens to every expert, and, if ranks exchange rows without a
  /// capacity, as many again for arriving tokens.
  [[nodiscard]] std::size_t num_numbers() const;
  /// The error of a single decision; nothing if it is valid.
  [[nodiscard]] std::optional<std::string> find_fault(
      const std::vector<std::int64_t>& numbers) const;
  /// The mismatch between ranks in a log in which every rank has all decisions.
  [[nodiscard]] std::optional<std::string> find_mismatch(const DecisionLog& log) const;

 private:
  [[nodiscard]] bool exchanges() const;
  [[nodiscard]] std::int64_t slots() const;  // Slots for each rank's tokens.

  const Scenario& scenario_;
  const ParallelOptions& options_;
};

}  // namespace shardsim
