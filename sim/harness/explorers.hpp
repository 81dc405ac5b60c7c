#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "sim/harness/program_run.hpp"

// Ways through the decisions of a program.
namespace shardsim {

/// Gives ranks random priorities and takes the message of the highest. At depth - 1 decisions,
/// drawn among the first `num_choices`, the rank that would be taken falls below all others.
class PriorityChooser final : public ListChooser {
 public:
  PriorityChooser(int ranks, int depth, std::int64_t num_choices, std::uint64_t seed);

 protected:
  std::size_t decide(std::size_t number, std::span<const MessageChoice> candidates) override;

 private:
  [[nodiscard]] std::size_t highest(std::span<const MessageChoice> candidates) const;

  std::vector<int> priority_;  // By rank.
  std::vector<std::size_t> changes_;
  int lowest_ = 0;
};

/// Goes through all runs that differ in what some rank sees: depth first, without those that only
/// swap decisions of different receivers.
class ReducedSearch {
 public:
  /// Runs once, deciding by `chooser`, and returns whether to go on.
  using Run = std::function<bool(ListChooser& chooser)>;
  /// At most `budget` runs. True if there are no more.
  bool search(const Run& run, std::int64_t budget);

 private:
  // A decision, with all that tells it from others of the same point.
  struct Step {
    int receiver = 0;
    std::int64_t receive = 0;
    MessageName message;

    friend auto operator<=>(const Step&, const Step&) = default;
  };
  struct Node {
    std::vector<MessageChoice> choices;  // One or more.
    std::size_t taken = 0;
    std::set<std::size_t> backtrack;  // Choices to take; some are taken.
    std::set<std::size_t> done;
    std::set<Step> sleep;  // Taken before, in an order that makes no difference.
  };
  class Walker;

  static Step step_of(const MessageChoice& choice);
  void add_races(const Walker& walker);
  bool next();

  std::vector<Node> path_;
};

}  // namespace shardsim
