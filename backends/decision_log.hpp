#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// What ranks decided on values, in the order in which they did: written by a run with data, read by
// a run without, which then does the same.
namespace shardsim {

/// By name, and for every rank the answers in order. Of all ranks of one run.
class DecisionLog {
 public:
  using Answers = std::vector<bool>;

  explicit DecisionLog(int num_ranks) : num_ranks_(num_ranks) {}

  [[nodiscard]] int num_ranks() const { return num_ranks_; }
  void add(int rank, std::string_view name, bool answer);
  /// Empty for a decision that the rank never took.
  [[nodiscard]] const Answers& of(int rank, std::string_view name) const;
  /// Names that were decided on, ascending, and the answers of all ranks.
  [[nodiscard]] const std::map<std::string, std::vector<Answers>, std::less<>>& all() const {
    return answers_;
  }
  friend bool operator==(const DecisionLog&, const DecisionLog&) = default;

 private:
  int num_ranks_;
  std::map<std::string, std::vector<Answers>, std::less<>> answers_;
};

/// One reading of a log, each rank at its own place in it. The log must outlive it.
class DecisionReplay {
 public:
  explicit DecisionReplay(const DecisionLog& log) : log_(log) {}

  /// The rank's next answer. Throws UsageError where the log has no more: it is of another program.
  [[nodiscard]] bool next(int rank, std::string_view name);
  /// After the run: throws UsageError if an answer was not asked for.
  void finish() const;

 private:
  const DecisionLog& log_;
  std::map<std::string, std::vector<std::size_t>, std::less<>> taken_;  // By rank.
};

}  // namespace shardsim
