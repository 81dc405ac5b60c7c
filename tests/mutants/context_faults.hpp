#pragma once

#include <string>

#include "tests/mutants/mutant.hpp"

// Bugs in what context-parallel ranks send each other, and in what they make of it.
namespace shardsim::test {

/// Where hops of one label stand in a run of one stage: forward makes `forward` of them, all layers
/// together, then backward as many, and so on.
struct Hops {
  int forward = 0;
  int per_layer = 0;  ///< c - 1.
};

/// Backward computes with the block of keys and values that forward has had last.
[[nodiscard]] Faults stale_keys(const Hops& hops);
/// Keys and values go round the other way: every block is taken for another rank's, and so masked
/// as if it lay elsewhere. With two ranks there is no other way.
[[nodiscard]] Faults keys_from_behind();
/// Hop number `which` of every layer's gradients of keys and values does not happen.
[[nodiscard]] Faults lost_gradient_hop(const Hops& hops, int which);
/// The exchanges with this label do not happen.
[[nodiscard]] Faults dropped_exchange(const std::string& label);
/// In the exchanges, each rank gets the heads, or tokens, of its neighbour.
[[nodiscard]] Faults shifted_exchange(const std::string& label);

}  // namespace shardsim::test
