#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

// The process group "shardsim": each call is written to the log. Small values are exchanged with
// the other ranks that are recorded at the same time; the rest move nothing.
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

/// `name`: the same on all members, and no other group's. `members`: world ranks in the group's
/// order.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_group(const std::string& name, int rank,
                                                           const std::vector<int>& members);

}  // namespace shardsim_torch
