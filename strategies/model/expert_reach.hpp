#pragma once

#include "strategies/model/routing.hpp"

// How many tokens reach a node, or a rank, that has some of a layer's experts: at most one copy of
// a token goes there, however many of its experts are there.
namespace shardsim {

/// The chance that at least one of a token's k experts is in a part, where `parts` equal runs of
/// experts are the parts and every choice of k is as likely as another; with a limit on groups,
/// every choice of groups, and of k of their experts. If groups lie across parts, which then
/// differ, it is the mean over them. Without groups it is 1 - C(E - E / parts, k) / C(E, k).
/// REQUIRES: `parts` divides the experts.
[[nodiscard]] double chance_to_reach(const MoeOptions& options, int parts);

}  // namespace shardsim
