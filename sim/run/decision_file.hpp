#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/decision_log.hpp"

#include "sim/experiment/assumptions.hpp"
#include "sim/experiment/experiment.hpp"

// Decisions of a run with data as a file, for the plan of the same training:
//   {"format": "shardsim-decisions", "version": 1, "ranks": 8, "training": "1f0c...",
//    "decisions": [{"name": "skip step", "ranks": [0, 7], "answers": "110000"}]}
// "training" is the hash of all that values depend on: model, parallelism, training, steps, seed
// and reduction order. The machine is not in it. Consecutive ranks with the same answers share a
// row, 1 is yes. Scenarios decide on "skip step": with loss scaling once in every step and alike on
// all ranks, without it never. If experts' routing is learned, the version is 2, and ranks that
// have experts also decide on "expert tokens" (expert_layer.hpp), one list per decision:
//     {"name": "expert tokens", "ranks": [3, 3], "numbers": [[4, 1, 0, 3], ...]}
namespace shardsim {

inline constexpr const char* kDecisionFormat = "shardsim-decisions";
inline constexpr int kDecisionVersion = 1;
inline constexpr int kExpertDecisionVersion = 2;

[[nodiscard]] std::string to_text(const DecisionLog& decisions, const Experiment& experiment);

/// Names a record in results: 16 hexadecimal digits, the hash of to_text().
[[nodiscard]] std::string hash_of(const DecisionLog& decisions, const Experiment& experiment);

/// The note in a result about the record that it replays.
[[nodiscard]] Assumptions replayed_assumptions(const DecisionLog& record,
                                               const Experiment& experiment);

/// Names the training of a record.
[[nodiscard]] std::string training_of(const Experiment& experiment);

/// The file is untrusted: size, depth and number of values are bounded, and memory is taken only
/// for entries that fit the experiment. Throws ScenarioError, with line and column: E0002 to E0005
/// for text that is no JSON, E0909 for JSON that is no such record, E0908 for a record of another
/// training. `path`: for messages.
[[nodiscard]] DecisionLog parse_decisions(const std::string& text, const Experiment& experiment,
                                          const std::string& path);

/// The same, from a file (E0001, E0003: none, or too large).
[[nodiscard]] DecisionLog read_decisions(const std::string& path, const Experiment& experiment);

// --- Tokens of experts -------------------------------------------------------------------------

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
  /// capacity, as many again for arriving tokens; more with slices, and where tokens go once to
  /// each node.
  [[nodiscard]] std::size_t num_numbers() const;
  /// The error of a single decision; nothing if it is valid.
  [[nodiscard]] std::optional<std::string> find_fault(
      const std::vector<std::int64_t>& numbers) const;
  /// The mismatch between ranks in a log in which every rank has all decisions.
  [[nodiscard]] std::optional<std::string> find_mismatch(const DecisionLog& log) const;

 private:
  [[nodiscard]] std::optional<std::string> find_slice_mismatch(const DecisionLog& log) const;
  // Where tokens go once to each node.
  [[nodiscard]] std::size_t num_numbers_by_node() const;
  [[nodiscard]] std::optional<std::string> find_mismatch_by_node(const DecisionLog& log) const;
  [[nodiscard]] bool exchanges() const;
  [[nodiscard]] std::int64_t slots() const;  // Slots for each rank's tokens.

  const Scenario& scenario_;
  const ParallelOptions& options_;
};

}  // namespace shardsim
