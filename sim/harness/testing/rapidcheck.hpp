#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <rapidcheck.h>

#include "sim/harness/testing/rapidcheck_check.hpp"
#include "sim/harness/testing/rapidcheck_meshes.hpp"
#include "sim/harness/testing/rapidcheck_models.hpp"

// RapidCheck generators of strategies' inputs. Each draws only legal ones, and shrinks towards few
// ranks, small sizes and even shares.
//
//   rc::check("sums of shards are shards of sums", [] {
//     const int ranks = *shardsim::gen::rank_counts(4);
//     const std::vector<std::int64_t> shards = *shardsim::gen::cuts(1000, ranks);
//     ...
//   });
namespace shardsim {
namespace gen {

namespace detail {
/// One number per rank, each from 0 to `most`, a quarter of them and more 0.
[[nodiscard]] inline rc::Gen<std::vector<std::int64_t>> uneven(int ranks, std::int64_t most) {
  return rc::gen::container<std::vector<std::int64_t>>(
      static_cast<std::size_t>(ranks),
      rc::gen::weightedOneOf<std::int64_t>(
          {{1, rc::gen::just<std::int64_t>(0)}, {3, rc::gen::inRange<std::int64_t>(0, most + 1)}}));
}

inline std::int64_t sum_of(const std::vector<std::int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}
}  // namespace detail

/// How many of `elements` each of `ranks` ranks has, consecutively: uneven, and some may have none.
[[nodiscard]] inline rc::Gen<std::vector<std::int64_t>> cuts(std::int64_t elements, int ranks) {
  constexpr std::int64_t kHeaviest = 8;
  return rc::gen::map(detail::uneven(ranks, kHeaviest),
                      [elements](std::vector<std::int64_t> weights) {
                        // All zero, to which they shrink, stands for even shares.
                        if (detail::sum_of(weights) == 0) std::ranges::fill(weights, 1);
                        const std::int64_t sum = detail::sum_of(weights);
                        std::vector<std::int64_t> counts;
                        std::int64_t before = 0;
                        for (const std::int64_t weight : weights) {
                          const std::int64_t first = elements * before / sum;
                          before += weight;
                          counts.push_back(elements * before / sum - first);
                        }
                        return counts;
                      });
}

/// How many tokens each of `ranks` ranks has: at most `most` each, at least one of all, some none.
[[nodiscard]] inline rc::Gen<std::vector<std::int64_t>> token_counts(int ranks, std::int64_t most) {
  return rc::gen::map(detail::uneven(ranks, most), [](std::vector<std::int64_t> counts) {
    if (detail::sum_of(counts) == 0) counts.front() = 1;
    return counts;
  });
}

}  // namespace gen

}  // namespace shardsim
