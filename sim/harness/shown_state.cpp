#include "sim/harness/shown_state.hpp"

#include <algorithm>

namespace shardsim {

void ShownState::add_share(int rank, std::int64_t samples) {
  const auto mine = std::find_if(shares_.begin(), shares_.end(),
                                 [&](const auto& share) { return share.first == rank; });
  if (mine == shares_.end()) {
    shares_.emplace_back(rank, samples);
  } else {
    mine->second += samples;
  }
}

void ShownState::clear() {
  pieces_.clear();
  shares_.clear();
  groups_.clear();
}

bool ShownState::shares_differ() const {
  return std::any_of(shares_.begin(), shares_.end(),
                     [&](const auto& share) { return share.second != shares_.front().second; });
}

}  // namespace shardsim
