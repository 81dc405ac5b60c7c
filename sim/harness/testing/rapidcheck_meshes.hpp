#pragma once

#include <array>
#include <cstddef>
#include <ostream>
#include <vector>

#include <rapidcheck.h>

#include "strategies/mesh.hpp"

// RapidCheck generators of meshes of ranks, for rapidcheck.hpp.
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

}  // namespace gen

// How RapidCheck prints what it has found: it looks for this name.
// NOLINTNEXTLINE(readability-identifier-naming)
inline void showValue(const MeshShape& shape, std::ostream& out) {
  out << "dp_shard " << shape.dp_shard << " x dp_replicate " << shape.dp_replicate << " x tp "
      << shape.tp << " x pp " << shape.pp << " x cp " << shape.cp << ", ep " << shape.ep << ", etp "
      << shape.etp;
}

}  // namespace shardsim
