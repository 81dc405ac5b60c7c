#include "strategies/model/expert_choice.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "strategies/model/close_calls.hpp"
#include "strategies/model/layer.hpp"

namespace shardsim {

namespace {

// Candidates with the best scores, as numbers decide or, where it is close, the oracle.
std::vector<int> best_of(std::vector<int> candidates, const std::vector<double>& scores,
                         std::int64_t count) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](int a, int b) { return scores[to_size(a)] > scores[to_size(b)]; });
  if (CloseCalls* const calls = CloseCalls::active())
    candidates = calls->rank(scores, std::move(candidates), to_size(count));
  candidates.resize(to_size(count));
  return candidates;
}

std::vector<int> first_numbers(std::int64_t count) {
  std::vector<int> numbers(to_size(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::vector<double> scores_of_groups(const RouterOptions& options,
                                     const std::vector<double>& scores, std::int64_t count) {
  const auto size = static_cast<std::ptrdiff_t>(scores.size()) / options.num_groups;
  const std::int64_t summed =
      options.group_score == GroupScore::maximum ? 1 : count / options.group_topk;
  std::vector<double> of_groups;
  for (std::int64_t group = 0; group < options.num_groups; ++group) {
    const auto first = scores.begin() + group * size;
    std::vector<double> sorted(first, first + size);
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    of_groups.push_back(std::accumulate(sorted.begin(), sorted.begin() + summed, 0.0));
  }
  return of_groups;
}

}  // namespace

std::vector<int> choose_experts(const RouterOptions& options, const std::vector<double>& scores,
                                std::int64_t count) {
  const auto experts = static_cast<std::int64_t>(scores.size());
  if (!options.has_groups()) return best_of(first_numbers(experts), scores, count);
  std::vector<int> groups = best_of(first_numbers(options.num_groups),
                                    scores_of_groups(options, scores, count), options.group_topk);
  std::sort(groups.begin(), groups.end());  // Equals are ranked by their number.
  const std::int64_t size = experts / options.num_groups;
  std::vector<int> candidates;
  for (const int group : groups) {
    for (std::int64_t i = 0; i < size; ++i) {
      candidates.push_back(static_cast<int>(group * size + i));
    }
  }
  return best_of(std::move(candidates), scores, count);
}

}  // namespace shardsim
