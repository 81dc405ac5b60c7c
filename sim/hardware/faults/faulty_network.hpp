#pragma once

#include <memory>

#include "sim/hardware/network_model.hpp"

namespace shardsim {

/// Prices on a machine of which some links are slow or flap: a group, or a message, costs what it
/// would on a machine all of whose links are like the worst ones that it uses, and stands still
/// while one of them is down. It uses the links inside the nodes on which it has two members or
/// more, and the network cards of all its nodes if there are several. REQUIRES: cluster.faults.
///
/// With NCCL's model bandwidth and latency are corrected as its overrides are, so NCCL's choice of
/// algorithm does not know of them. A group of several nodes then is corrected by the share that
/// its slowest link has lost: min(rails x card, NVLink) with faults / without.
[[nodiscard]] std::unique_ptr<NetworkModel> make_faulty_network(const Cluster& cluster);

}  // namespace shardsim
