#include "sim/programs/root_kinds.hpp"

#include <algorithm>
#include <utility>

namespace shardsim {

namespace {

using Counts = std::map<std::size_t, std::size_t>;  // Records, by the first of their variant.

std::pair<std::size_t, std::size_t> largest_of(const Counts& counts) {
  return *std::ranges::max_element(
      counts, {}, [](const auto& model_and_count) { return model_and_count.second; });
}

std::size_t total_of(const Counts& counts) {
  std::size_t total = 0;
  for (const auto& [_, count] : counts) total += count;
  return total;
}

}  // namespace

std::optional<RootKinds> kinds_of_roots(
    const std::vector<std::vector<std::size_t>>& variants,
    const std::function<RootPlaces(std::size_t)>& roots_of,
    const std::function<std::size_t(const RootPlaces&)>& num_ranks_with) {
  if (variants.size() < 2) return std::nullopt;
  std::map<RootPlaces, Counts> kinds;
  for (const std::vector<std::size_t>& variant : variants) {
    for (const std::size_t record : variant) ++kinds[roots_of(record)][variant.front()];
  }
  const std::size_t most =
      std::ranges::max_element(variants, {}, &std::vector<std::size_t>::size)->front();
  RootKinds told;
  std::size_t num_most = 0;
  bool is_told = false;
  for (const auto& [roots, counts] : kinds) {
    const auto [model, count] = largest_of(counts);
    const std::size_t total = total_of(counts);
    if (2 * count <= total) return std::nullopt;
    told.models.emplace(roots, model);
    if (total > num_most) told.most = roots;
    num_most = std::max(num_most, total);
    if (model == most) continue;
    const std::size_t num_ranks = num_ranks_with(roots);
    if (count < std::min<std::size_t>(2, num_ranks)) return std::nullopt;
    is_told = is_told || num_ranks > 1;
  }
  return is_told ? std::optional(std::move(told)) : std::nullopt;
}

}  // namespace shardsim
