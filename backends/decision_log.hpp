#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// Decisions of ranks on values, in their order. A run with data writes them; a run without data
// reads and repeats them.
namespace shardsim {

/// Answers of all ranks of one run, by name and rank, in order.
class DecisionLog {
 public:
  using Answers = std::vector<bool>;
  using Numbers = std::vector<std::vector<std::int64_t>>;  ///< One vector per decision.

  explicit DecisionLog(int num_ranks) : num_ranks_(num_ranks) {}

  [[nodiscard]] int num_ranks() const { return num_ranks_; }
  void add(int rank, std::string_view name, bool answer);
  /// Empty for a decision that the rank never took.
  [[nodiscard]] const Answers& of(int rank, std::string_view name) const;
  /// Names that were decided on, ascending, and the answers of all ranks.
  [[nodiscard]] const std::map<std::string, std::vector<Answers>, std::less<>>& all() const {
    return answers_;
  }
  /// The same for decisions on whole numbers.
  void add_numbers(int rank, std::string_view name, std::vector<std::int64_t> numbers);
  [[nodiscard]] const Numbers& numbers_of(int rank, std::string_view name) const;
  [[nodiscard]] const std::map<std::string, std::vector<Numbers>, std::less<>>& all_numbers()
      const {
    return numbers_;
  }
  friend bool operator==(const DecisionLog&, const DecisionLog&) = default;

 private:
  int num_ranks_;
  std::map<std::string, std::vector<Answers>, std::less<>> answers_;
  std::map<std::string, std::vector<Numbers>, std::less<>> numbers_;
};

/// One reading of a log, each rank at its own place in it. The log must outlive it.
class DecisionReplay {
 public:
  explicit DecisionReplay(const DecisionLog& log) : log_(log) {}

  /// The rank's next answer. Throws UsageError where the log has no more: it is of another program.
  [[nodiscard]] bool next(int rank, std::string_view name);
  [[nodiscard]] const std::vector<std::int64_t>& next_numbers(int rank, std::string_view name);
  /// After the run: throws UsageError if an answer was not asked for.
  void finish() const;

 private:
  using Taken = std::map<std::string, std::vector<std::size_t>, std::less<>>;
  /// How many answers a rank has taken of those under a name, to be counted on; throws where there
  /// are no more than `available`.
  std::size_t take(Taken& taken, int rank, std::string_view name, std::size_t available) const;

  const DecisionLog& log_;
  Taken taken_;  // By rank.
  Taken numbers_taken_;
};

}  // namespace shardsim
