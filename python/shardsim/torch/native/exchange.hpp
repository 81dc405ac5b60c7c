#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

// Small values that the members of a group send each other: between ranks that are recorded at the
// same time they go through a store.
namespace shardsim_torch {

/// Who is recorded beside this rank.
struct Recorders {
  int rank = 0;
  /// By world rank, the recorded rank that stands for it; empty: this rank stands for all.
  std::vector<int> representative;
  /// Where recorders leave values for each other; null: there are no others.
  c10::intrusive_ptr<c10d::Store> store;
};

void set_recorders(Recorders recorders);

/// Fetches what others have left for a call. It may wait for them; null: there is nothing.
using Fetch = std::function<void()>;

/// The values of one group. Calls are counted, so members make the same ones in the same order.
class Exchange {
 public:
  using Values = std::vector<at::Tensor>;  ///< By member.

  Exchange(std::string group, int rank, std::vector<int> members)
      : group_(std::move(group)), rank_(rank), members_(std::move(members)) {}

  /// Leaves the values of a small tensor for the others. Has `use` called with all members' when
  /// they are fetched, if they are known.
  [[nodiscard]] Fetch all(const at::Tensor& own, std::function<void(const Values&)> use);
  /// The same for each of several tensors.
  [[nodiscard]] Fetch each(const std::vector<at::Tensor>& tensors,
                           std::function<void(const at::Tensor&, const Values&)> use);
  /// A message to a member, and one from it.
  void leave_message(const at::Tensor& tensor, int to);
  [[nodiscard]] Fetch message(const at::Tensor& tensor, int from);

 private:
  [[nodiscard]] int own() const { return members_[static_cast<std::size_t>(rank_)]; }
  [[nodiscard]] int stand_in(int rank) const;
  [[nodiscard]] bool is_recorded(int member) const;
  [[nodiscard]] std::optional<Values> values_of_all(const std::string& key, const at::Tensor& like,
                                                    const at::Tensor& own_values) const;
  [[nodiscard]] std::vector<std::uint8_t> left_by(const std::string& key, int rank) const;

  std::string group_;
  int rank_;
  std::vector<int> members_;
  std::int64_t num_exchanges_ = 0;
  std::map<int, int> num_sent_;  // By peer.
  std::map<int, int> num_received_;
};

/// Gives a tensor of the device values, if it is small enough to have them.
void set_values(const at::Tensor& to, const at::Tensor& values);

}  // namespace shardsim_torch
