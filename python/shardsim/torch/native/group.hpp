#pragma once

#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

// The process group "shardsim": each call is written to the log. Small values are exchanged with
// the other ranks that are recorded at the same time; the rest move nothing.
namespace shardsim_torch {

/// `name`: the same on all members, and no other group's. `members`: world ranks in the group's
/// order.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_group(const std::string& name, int rank,
                                                           const std::vector<int>& members);

}  // namespace shardsim_torch
