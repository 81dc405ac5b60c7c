#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/decision_log.hpp"

#include "sim/experiment/experiment.hpp"

namespace shardsim {

/// What an experiment with learned routing must decide on under kExpertTokens, and whether a record
/// of it is one that could have been: ranks that expect other rows than they are sent would hang.
class ExpertTokens {
 public:
  explicit ExpertTokens(const Experiment& experiment);

  /// Whether there are such decisions at all.
  [[nodiscard]] static bool are_decided(const Experiment& experiment);
  /// Decisions of a rank in all steps; 0 on a stage without experts.
  [[nodiscard]] std::size_t num_decisions(int rank) const;
  /// Numbers in each: tokens to every expert, and, where rows are exchanged as they are, as many
  /// again of those that arrive.
  [[nodiscard]] std::size_t num_numbers() const;
  /// What is wrong with a decision by itself; nothing if it may be.
  [[nodiscard]] std::optional<std::string> find_fault(
      const std::vector<std::int64_t>& numbers) const;
  /// What does not fit between ranks, of a log in which every rank has all decisions.
  [[nodiscard]] std::optional<std::string> find_mismatch(const DecisionLog& log) const;

 private:
  [[nodiscard]] bool exchanges() const;
  [[nodiscard]] std::int64_t slots() const;  // That each rank's tokens have.

  const Scenario& scenario_;
  const ParallelOptions& options_;
};

}  // namespace shardsim
