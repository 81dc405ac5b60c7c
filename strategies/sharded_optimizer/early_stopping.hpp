#pragma once

#include <cstdint>
#include <functional>
#include <limits>

// When an optimization ends before its limit of iterations.
namespace shardsim {

struct EarlyStopping {
  /// One rank's vote is enough, or all are needed. All ranks then get the same answer.
  enum class Policy : std::uint8_t { any, all };
  Policy policy = Policy::any;

  // A rank votes for the end if one of these holds. A limit of 0 or null never holds.

  /// No training loss was below the best before it by more than `minimum_improvement`, for so many
  /// iterations.
  std::int64_t patience = 0;
  double minimum_improvement = 0.0;
  /// The loss changed by less than this from one iteration to the next.
  double minimum_change = 0.0;
  /// The validation losses this rank reported were worse than its best one, so many times in a row.
  std::int64_t validation_patience = 0;
  /// The rank's own opinion.
  std::function<bool()> vote;

  [[nodiscard]] bool acts() const {
    return patience > 0 || minimum_change > 0.0 || validation_patience > 0 || vote != nullptr;
  }
};

/// Throws UsageError for numbers that are negative or not finite.
void validate(const EarlyStopping& rules);

/// A sequence of losses, and whether it still falls.
struct LossHistory {
  double previous = std::numeric_limits<double>::infinity();
  double change = std::numeric_limits<double>::infinity();  ///< |last - previous|.
  double best = std::numeric_limits<double>::infinity();
  std::int64_t since_best = 0;

  void add(double loss, double minimum_improvement);
};

/// This rank's vote. `training` is the same on all ranks, `validation` is its own.
[[nodiscard]] bool votes_to_stop(const EarlyStopping& rules, const LossHistory& training,
                                 const LossHistory& validation);

}  // namespace shardsim
