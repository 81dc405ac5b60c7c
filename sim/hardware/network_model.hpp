#pragma once

#include <memory>

#include "sim/kernel/time.hpp"

#include "sim/hardware/collective.hpp"

// Decides when a communication ends. The engine hands it operations when no rank is ready, earliest
// start first if the model asks for it. So a model that shares links between operations fits this
// interface as well.
namespace shardsim {

struct CollectiveRequest {
  CollectiveKind kind = collective::kAllReduce;
  const GroupLayout* layout = nullptr;
  const DoubleTree* tree = nullptr;  ///< For all_reduce; null: no tree offered.
  Algorithm algorithm = Algorithm::automatic;
  std::int64_t bytes = 0;          ///< n: the full logical buffer.
  std::int64_t largest_chunk = 0;  ///< The largest member's part of it.
};

struct CollectivePrice {
  Time duration;
  Algorithm algorithm = Algorithm::ring;
};

class NetworkModel {
 public:
  virtual ~NetworkModel() = default;
  /// Whether a price depends on what was priced before. Then operations come in order of their
  /// start; where it does not, the order that suits the caches is several times faster.
  [[nodiscard]] virtual bool depends_on_order() const { return true; }
  /// Whether it depends on the start. Where it depends on neither, one answer holds for ever.
  [[nodiscard]] virtual bool depends_on_start() const { return true; }
  [[nodiscard]] virtual CollectivePrice collective(const CollectiveRequest& request,
                                                   Time start) = 0;
  /// One message between two ranks of the world.
  [[nodiscard]] virtual Time transfer(int source, int destination, std::int64_t bytes,
                                      Time start) = 0;
};

/// Closed-form alpha-beta prices on two tiers; operations do not disturb each other.
/// alpha, beta: a ring of members on several nodes is paced by its slowest hop. Between nodes a
/// ring uses as many network cards of a node at once as the node with the fewest members has
/// members (`rails`). It is never faster than the links inside. Where no switch joins the GPUs of a
/// node (Cluster::pair_bytes_per_s), each of n members there has at most n - 1 such links.
///   ring all_reduce       2 (N-1) (alpha + c / beta), c = largest chunk
///   reduce_scatter, all_gather  (N-1) (alpha + c / beta)
///   tree all_reduce       2 (near depth alpha_near + far depth alpha_far) + 2 n / beta
///   broadcast, reduce     (N-1) alpha + n / beta  (a pipelined chain)
///   all_to_all            one message to each other member, near and far ones at their tier
///   gather, scatter       alpha + (n - c) / beta at the root
///   barrier               ceil(log2 N) alpha
[[nodiscard]] std::unique_ptr<NetworkModel> make_alpha_beta_model(const Cluster& cluster);

/// NCCL (sim/hardware/nccl/): the algorithm and protocol that its own cost model would choose for a
/// group that lies so on the nodes, and how long that takes. Operations do not disturb each other.
/// Traffic is counted as a ring's where NCCL takes Ring, NVLS or PAT, and as a tree's where it
/// takes Tree or NVLSTree.
///   all_to_all        exchange_time()
///   gather, scatter   the same at the root, with a NIC of its own
///   barrier           an all_reduce of 4 bytes
///   a message         exchange_time(), with a NIC share as if all GPUs of the node sent
/// Between pods the bytes take `oversubscription` times as long. REQUIRES: cluster.nccl. Throws
/// UsageError E0403 where the machine is unknown to it.
[[nodiscard]] std::unique_ptr<NetworkModel> make_nccl_model(const Cluster& cluster);

/// The one that the cluster asks for, with the faults that its links have.
[[nodiscard]] std::unique_ptr<NetworkModel> make_network_model(const Cluster& cluster);

}  // namespace shardsim
