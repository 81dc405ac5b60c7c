#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/kernel/operation.hpp"
#include "sim/kernel/rank_state.hpp"
#include "sim/kernel/time.hpp"

namespace shardsim {

/// A rank that waits until one of some operations has ended, or a time has come.
struct Alarm {
  RankState* rank = nullptr;
  std::span<Operation* const> operations;
  std::optional<Time> at_most;

  /// When it sounds, as far as is known, and not before the rank's own time. None: an operation has
  /// to be resolved first.
  [[nodiscard]] std::optional<Time> time() const;
  /// Whether one of the operations has an end, so that the rank goes on whatever else happens.
  [[nodiscard]] bool has_end() const;
};

/// The alarms of one run.
class Alarms {
 public:
  void add(const Alarm& alarm) { alarms_.push_back(alarm); }
  [[nodiscard]] bool empty() const { return alarms_.empty(); }
  void clear() { alarms_.clear(); }
  /// When the first one sounds; none if all wait for operations.
  [[nodiscard]] std::optional<Time> next() const;
  /// The same of those that have an end.
  [[nodiscard]] std::optional<Time> next_end() const;
  /// Removes the first one; of several at one time, that of the lowest rank. REQUIRES: next().
  [[nodiscard]] Alarm take_next();

 private:
  std::vector<Alarm> alarms_;  // Few: ranks mostly wait for one operation.
};

}  // namespace shardsim
