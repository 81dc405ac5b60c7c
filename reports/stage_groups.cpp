#include "reports/stage_groups.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

namespace shardsim {
namespace {

// All members are compared with the first, so that small steps do not add up.
template <class Values>
std::vector<StageGroup> groups_of(const std::vector<StageTime>& stages, const Values& values) {
  double largest = 0;
  for (const StageTime& stage : stages) {
    const auto parts = values(stage);
    largest = std::max(largest, std::accumulate(parts.begin(), parts.end(), 0.0));
  }
  const auto is_same = [&](const StageTime& a, const StageTime& b) {
    return std::ranges::equal(values(a), values(b), [largest](double x, double y) {
      return std::abs(x - y) <= kSameStage * largest;
    });
  };
  std::vector<StageGroup> groups;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (groups.empty() || !is_same(stages[groups.back().first], stages[i])) {
      groups.push_back({i, i});
    }
    groups.back().last = i;
  }
  return groups;
}

}  // namespace

std::vector<StageGroup> groups_by_time(const std::vector<StageTime>& stages) {
  return groups_of(stages, [](const StageTime& stage) {
    return std::array{stage.compute_s, stage.exposed_comm_s, stage.bubble_s, stage.host_s};
  });
}

std::vector<StageGroup> groups_by_memory(const std::vector<StageTime>& stages) {
  return groups_of(stages, [](const StageTime& stage) {
    std::array<double, kNumMemoryCategories> bytes{};
    std::ranges::copy(stage.at_peak, bytes.begin());
    return bytes;
  });
}

std::string name_of(const StageGroup& group, const std::vector<StageTime>& stages) {
  const std::int64_t first = stages[group.first].stage;
  if (group.first == group.last) return fmt::format("stage {}", first);
  return fmt::format("stages {} to {}", first, stages[group.last].stage);
}

}  // namespace shardsim
