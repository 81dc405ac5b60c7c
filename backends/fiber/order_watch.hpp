#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/kernel/diagnosis.hpp"

#include "backends/fiber/fiber_operation.hpp"

namespace shardsim {

/// Finds operations of two groups that two ranks post in different orders while both are under way.
/// That is legal here, as a stream waits for no other. If a device runs few kernels at once, as
/// with NCCL, each rank may hold the place that the other waits for. Source: NCCL user guide,
/// "Using multiple NCCL communicators concurrently".
class OrderWatch {
 public:
  explicit OrderWatch(int num_ranks) : under_way_(static_cast<std::size_t>(num_ranks)) {}

  /// `after`: may be null.
  void posted(int rank, const FiberOperation& operation, CallSite site, const FiberOperation* after,
              Time now);
  void waited(int rank, const FiberOperation& operation);
  /// One for each pair of groups. While these live.
  [[nodiscard]] std::vector<Diagnosis> warnings() const;

 private:
  // An operation, told apart from others that use the same object later.
  using Name = std::pair<std::uint64_t, std::int64_t>;  // Group id, and sequence.
  struct UnderWay {
    const FiberOperation* operation;
    Name name;
    CallSite site;
  };
  // Ranks that have posted two operations in one order.
  struct Side {
    std::vector<int> ranks;
    CallSite second;  // Call of the later one on the first of them.
  };
  struct Seen {
    const FiberGroup* lower;  // In the order of names.
    const FiberGroup* higher;
    Time time;
    Side in_order;
    Side reversed;
  };
  void compare(int rank, const UnderWay& first, const UnderWay& second, Time now);
  [[nodiscard]] static Diagnosis warning(std::int64_t sequence, const Seen& seen);

  std::vector<std::vector<UnderWay>> under_way_;  // By rank.
  std::map<std::pair<Name, Name>, Seen> seen_;
};

}  // namespace shardsim
