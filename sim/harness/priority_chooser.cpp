#include <algorithm>
#include <numeric>

#include "sim/kernel/hash.hpp"

#include "sim/harness/explorers.hpp"

namespace shardsim {

PriorityChooser::PriorityChooser(int ranks, int depth, std::int64_t num_choices, std::uint64_t seed)
    : priority_(static_cast<std::size_t>(ranks)) {
  RollingHash draw;
  draw.add(seed);
  const auto below = [&draw](std::uint64_t end) {
    draw.add(end);
    return draw.value() % end;
  };
  std::iota(priority_.begin(), priority_.end(), 0);
  for (std::size_t i = priority_.size(); i > 1; --i) {
    std::swap(priority_[i - 1], priority_[static_cast<std::size_t>(below(i))]);
  }
  for (int change = 1; change < depth; ++change) {
    const auto most = static_cast<std::uint64_t>(std::max<std::int64_t>(num_choices, 1));
    const auto drawn = static_cast<std::size_t>(below(most));
    // Two changes at one decision would be one; with too few decisions there are no more.
    const bool twice = std::find(changes_.begin(), changes_.end(), drawn) != changes_.end();
    if (twice && changes_.size() < most) {
      --change;
    } else {
      changes_.push_back(drawn);
    }
  }
}

std::size_t PriorityChooser::highest(std::span<const MessageChoice> candidates) const {
  std::size_t best = 0;
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    const auto rank_of = [&](std::size_t choice) {
      return static_cast<std::size_t>(candidates[choice].message.source);
    };
    if (priority_[rank_of(i)] > priority_[rank_of(best)]) best = i;
  }
  return best;
}

std::size_t PriorityChooser::decide(std::size_t number, std::span<const MessageChoice> candidates) {
  if (std::find(changes_.begin(), changes_.end(), number) != changes_.end()) {
    const int falls = candidates[highest(candidates)].message.source;
    priority_[static_cast<std::size_t>(falls)] = --lowest_;
  }
  return highest(candidates);
}

}  // namespace shardsim
