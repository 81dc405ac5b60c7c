#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/wrapping_communicator.hpp"

#include "sim/harness/named_difference.hpp"

// The values that ranks put into reductions. If a shown tensor is such a reduction, they tell whose
// contribution is missing or has the wrong weight.
namespace shardsim {

/// All sums and means of one run, with what each member has put in.
class ReductionLog {
 public:
  struct Reduction {
    std::string call;  ///< "all_reduce "gradients"".
    int size = 0;      ///< Members of its group.
    /// By world rank; a mean's inputs are divided already.
    std::map<int, std::vector<double>> terms;
  };
  /// Identifies a reduction: its group, and its number there.
  using Key = std::pair<std::string, std::int64_t>;
  void add(const Key& key, const std::string& call, int size, int rank, std::vector<double> terms);
  [[nodiscard]] const std::map<Key, Reduction>& reductions() const { return reductions_; }

 private:
  std::map<Key, Reduction> reductions_;
  std::size_t num_values_ = 0;
};

/// Writes down what its rank puts into reductions, here and in all groups split from it.
class LoggingCommunicator final : public WrappingCommunicator {
 public:
  /// All must outlive this.
  LoggingCommunicator(Communicator& inner, ReductionLog& log)
      : WrappingCommunicator(inner), log_(log), group_("world"), world_rank_(inner.rank()) {}

  Work post(const Call& call) override;
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                                    CallSite site) override;

 private:
  LoggingCommunicator(std::unique_ptr<Communicator> inner, ReductionLog& log, std::string group,
                      int world_rank)
      : WrappingCommunicator(std::move(inner)),
        log_(log),
        group_(std::move(group)),
        world_rank_(world_rank) {}

  ReductionLog& log_;
  std::string group_;  // The way to it: "world/0:1".
  int world_rank_;
  std::int64_t num_calls_ = 0;
  std::int64_t num_splits_ = 0;
};

/// Names a difference by the terms of the reduction that made the tensor. `shares`: ranks and their
/// parts of the batch; may be empty.
[[nodiscard]] std::optional<NamedDifference> name_terms(
    const DifferenceContext& context, const ReductionLog& log,
    const std::vector<std::pair<int, std::int64_t>>& shares);

}  // namespace shardsim
