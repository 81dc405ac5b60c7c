#pragma once

#include <span>
#include <vector>

#include "sim/kernel/turns.hpp"

#include "backends/runtime.hpp"

#include "strategies/mesh.hpp"
#include "strategies/model/dispatch_rows.hpp"
#include "strategies/model/expert_counts.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

// Dispatch by node: a token goes once to each node that has one of its experts, to the rank with
// the sender's place there, and from that one once to each rank of the node that has one. There
// they run, and their weighted sum for the token comes back the same way: it is added up over the
// ranks of a node, and then over nodes. So what crosses a network card does not grow with the
// experts that share a node. The choice of experts and their weights travel with a token. Kernels
// that send read a token where it lies, and add up what comes back as it comes: copying takes no
// time of its own, but rows under way have memory. Source: DeepSeek-AI, "DeepSeek-V3 Technical
// Report" (2024), section 3.2.2, and DeepEP.
namespace shardsim {

/// One rank's end. Hops are counted from the token's own rank on: first between nodes, then inside
/// one. A group of one has no hop.
class NodeDispatch {
 public:
  /// `mesh` has groups of such a dispatch. Before it waits for rows it passes the turn. Both must
  /// outlive it.
  NodeDispatch(Mesh& mesh, Turns& turns);

  [[nodiscard]] int num_hops() const { return static_cast<int>(hops_.size()); }
  /// REQUIRES: `num_experts` divides over the group.
  [[nodiscard]] DispatchGrid grid(std::int64_t num_experts) const;
  /// Experts that are this rank's.
  [[nodiscard]] HopExperts own_experts(std::int64_t num_experts) const;

  /// Tensors of count_for_nodes and count_for_ranks: as this rank made them, and as it was told.
  struct Told {
    Tensor to_nodes;
    Tensor from_nodes;
    Tensor to_ranks;
    Tensor from_ranks;
  };
  [[nodiscard]] Told exchange_counts(Runtime& runtime, const Tensor& chosen,
                                     std::int64_t num_experts) const;
  /// The numbers of `told`. REQUIRES: data.
  [[nodiscard]] ExpertCounts counts_of(const Told& told) const;

  /// Copies of a hop; see order_copies. `chosen`: of the tokens before the hop.
  [[nodiscard]] Tensor order(Runtime& runtime, int hop, const Tensor& chosen,
                             const ExpertCounts& counts) const;
  /// Posts a hop: rows of tokens [n, w] -> those that arrive [R, w].
  [[nodiscard]] PendingTensor send(Runtime& runtime, int hop, const Tensor& rows,
                                   const Tensor& order, const ExpertCounts& counts,
                                   const CallOptions& options) const;
  /// All hops, one after the other. `orders`: of each hop.
  [[nodiscard]] Tensor send_on(Runtime& runtime, Tensor rows, std::span<const Tensor> orders,
                               const ExpertCounts& counts, const CallOptions& options) const;

  /// Rows that arrived, or what was made of them, and where they end as sums for each token.
  struct Returning {
    Tensor rows;
    Shape shape;
    CallOptions options;
  };
  /// All the way back, with all of them on a hop at once: `rows` are the sums then.
  void bring_back(Runtime& runtime, std::span<Returning> all, std::span<const Tensor> orders,
                  const ExpertCounts& counts) const;

 private:
  struct Hop {
    Communicator* group;
    bool is_between_nodes;
  };
  [[nodiscard]] HopExperts experts_of(int hop, std::int64_t num_experts) const;

  std::vector<Hop> hops_;
  Turns& turns_;
  int nodes_;
  int ranks_;  // Members of the group on a node.
  int node_;   // This rank's.
  int rank_;   // Its place there.
};

}  // namespace shardsim
