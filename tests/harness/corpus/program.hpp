#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/harness/corpus/corpus_row.hpp"

// Words that the programs of the corpus share.
namespace shardsim::corpus {

inline bool is_last(const RankContext& context) { return context.rank() == context.size() - 1; }
inline bool is_middle(const RankContext& context) { return context.rank() == context.size() / 2; }

inline Culprits only(int rank) {
  return [=](int) { return std::vector<int>{rank}; };
}
inline Culprits these(const std::vector<int>& ranks) {
  return [=](int) { return ranks; };
}
inline Culprits last() {
  return [](int size) { return std::vector<int>{size - 1}; };
}
inline Culprits middle() {
  return [](int size) { return std::vector<int>{size / 2}; };
}
/// All but the first `skipped`.
inline Culprits all(int skipped = 0) {
  return [=](int size) {
    std::vector<int> ranks(static_cast<std::size_t>(std::max(size - skipped, 0)));
    std::iota(ranks.begin(), ranks.end(), skipped);
    return ranks;
  };
}

/// Elements [first, last) of a whole.
struct Part {
  std::int64_t first = 0;
  std::int64_t last = 0;
  [[nodiscard]] std::int64_t count() const { return last - first; }
};
/// The `index`th of `parts` parts that differ by one at most.
inline Part part_of(std::int64_t whole, int index, int parts) {
  return {whole * index / parts, whole * (index + 1) / parts};
}
inline Part my_part(std::int64_t whole, const RankContext& context) {
  return part_of(whole, context.rank(), context.size());
}

/// A whole number in [-8, 8), the same at every layout.
inline double whole_number(const RankContext& context, const std::string& name,
                           std::int64_t index) {
  constexpr double kRange = 8.0;
  return static_cast<double>(
             static_cast<std::int64_t>((context.draw(name, index) + 1.0) * kRange)) -
         kRange;
}

/// Divisible by every number of ranks up to 8.
inline constexpr std::int64_t kSamples = 840;
inline constexpr std::int64_t kWeights = 8;

/// Sum over samples [part.first, part.last) of a step's batch of a linear model's gradient, times
/// `scale`.
inline Tensor gradient_of(RankContext& context, int step, const Part& part, double scale) {
  return context.tensor(kWeights, [&](std::int64_t weight) {
    double sum = 0.0;
    for (std::int64_t i = part.first; i < part.last; ++i) {
      sum += whole_number(context, "sample", (step * kSamples + i) * kWeights + weight);
    }
    return sum * scale;
  });
}

/// weights -= gradient, from element `first` of the gradient.
inline void descend(const Tensor& weights, const Tensor& gradient, std::int64_t first = 0) {
  for (std::int64_t i = 0; i < weights.numel(); ++i) {
    weights.set(i, weights.get(i) - gradient.get(first + i));
  }
}

}  // namespace shardsim::corpus
