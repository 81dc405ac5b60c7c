#pragma once

#include <memory>
#include <span>

#include "sim/hardware/faults/faults.hpp"
#include "sim/hardware/network_model.hpp"

namespace shardsim {

/// Prices on a machine with slow or flapping links. A group, or a message, costs as much as on a
/// machine whose links are all like the worst ones that it uses. It stands still while one of them
/// is down. It uses the links inside nodes with two or more of its members, and the network cards
/// of all its nodes if there are several. REQUIRES: cluster.faults.
///
/// With NCCL's model, faults act as overrides of bandwidth and latency, so NCCL's choice of
/// algorithm does not know of them. The correction of a group of several nodes is the share that
/// its slowest link keeps: min(rails x card, NVLink) with faults / without.
[[nodiscard]] std::unique_ptr<NetworkModel> make_faulty_network(const Cluster& cluster);

/// The first moment at which all links have been up together for `duration` since `start`: nothing
/// moves while any of them is down. `start` itself if there is nothing to move. It counts in whole
/// picoseconds, so that outages are exact. Throws LimitError E1396 where outages take turns for so
/// long that no end is found.
[[nodiscard]] Time end_with_outages(std::span<const FlappingLink> links, Time start, Time duration);

}  // namespace shardsim
