#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include <rapidcheck.h>

#include "strategies/mesh.hpp"

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

/// A number of ranks, from 1 to `most`.
[[nodiscard]] inline rc::Gen<int> rank_counts(int most) { return rc::gen::inRange(1, most + 1); }

/// A mesh of at most `most` ranks, with any axes. V placement and the order of ranks are left as
/// they are: all values of these are legal with each mesh.
[[nodiscard]] inline rc::Gen<MeshShape> mesh_shapes(int most) {
  return rc::gen::exec([most] {
    // The axis that is drawn first gets most of the ranks; each takes its turn at that.
    std::array<int, 5> sizes{};
    const auto start = *rc::gen::inRange<std::size_t>(0, sizes.size());
    int left = most;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      int& size = sizes[(start + i) % sizes.size()];
      size = *rc::gen::inRange(1, left + 1);
      left /= size;
    }
    MeshShape shape{.dp_shard = sizes[0],
                    .dp_replicate = sizes[1],
                    .tp = sizes[2],
                    .pp = sizes[3],
                    .cp = sizes[4]};
    const int folded = shape.dp_shard * shape.tp * shape.cp;
    std::vector<int> divisors;
    for (int d = 1; d <= folded; ++d) {
      if (folded % d == 0) divisors.push_back(d);
    }
    const int parts = divisors[*rc::gen::inRange<std::size_t>(0, divisors.size())];
    std::erase_if(divisors, [parts](int d) { return parts % d != 0; });
    shape.ep = divisors[*rc::gen::inRange<std::size_t>(0, divisors.size())];
    shape.etp = parts / shape.ep;
    return shape;
  });
}

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

// How RapidCheck prints what it has found: it looks for this name.
// NOLINTNEXTLINE(readability-identifier-naming)
inline void showValue(const MeshShape& shape, std::ostream& out) {
  out << "dp_shard " << shape.dp_shard << " x dp_replicate " << shape.dp_replicate << " x tp "
      << shape.tp << " x pp " << shape.pp << " x cp " << shape.cp << ", ep " << shape.ep << ", etp "
      << shape.etp;
}

}  // namespace shardsim
