#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strategies/model/expert_counts.hpp"
#include "strategies/model/expert_order.hpp"
#include "strategies/model/make_model.hpp"
#include "strategies/model/parameter_table.hpp"
#include "strategies/model/pass.hpp"
#include "strategies/model/router.hpp"
#include "strategies/sharding/expert_parallel.hpp"
#include "strategies/sharding/node_dispatch.hpp"

// The routed experts of a block: each token passes k of E gated MLPs, weighed by its gates. On one
// device rows are sorted by expert; with expert parallelism they also travel to the rank that has
// the expert and back. Experts may work on latents, l elements per token: W_1 x is what travels and
// is combined, and W_2 of that is the output. The router reads x. Both are whole on every rank.
// Source: Megatron-LM, moe_layer.py, fc1_latent_proj and fc2_latent_proj.
namespace shardsim {

/// The question that a layer asks Runtime::decide once in every forward, unless its routing is
/// declared: how many of the rank's tokens go to each expert; where nothing is dropped and ranks
/// share experts, also how many it gets, from each member for each of its own experts, and with
/// slices of experts how many each of their ranks gets. With dispatch by node: how many it gets for
/// each of its own experts, and for each hop how many rows go to each member and come from it. In
/// the order of numbers_of().
inline constexpr const char* kExpertTokens = "expert tokens";

/// Names under which a run's tokens are tallied (Runtime::tally), in each backward.
inline constexpr const char* kExpertLoad = "expert load";        ///< By layer and expert.
inline constexpr const char* kDroppedTokens = "dropped tokens";  ///< Pairs of token and slot.

class ExpertLayer {
 public:
  /// Tensors that a layer keeps for backward.
  enum Kept : std::size_t {
    scores,
    chosen,
    gates,
    z_slope,
    order,
    sizes,
    loads,
    input,  ///< Rows that arrived, expert by expert.
    gate,
    up,
    activated,
    output,         ///< Rows that came back.
    latent_input,   ///< W_1 x, for weights that are on the input.
    latent_output,  ///< W_2 reads it.
    // With dispatch by node: of each hop, and the weights of tokens that arrived.
    copies_between_nodes,
    copies_inside_node,
    gates_here,
    row_gates,  ///< [R, 1], where weights multiply activations; in backward their gradient.
    num_kept
  };
  /// The block's parameters: the router, W_1 and W_2 if there are latents, and the first of the
  /// experts', whose gate, if they have one, up and down follow each other. Biases stand behind
  /// their weights.
  struct Places {
    int router = 0;
    int experts = 0;
  };

  explicit ExpertLayer(const ModelOptions& options);

  /// Parameters of the router and of latents.
  [[nodiscard]] int outer_size() const { return router_size() + (moe_.has_latent() ? 2 : 0); }
  /// Those of latents are "`name`.latents.down" and ".up".
  void add_latents(ParameterTable& table, const std::string& name) const;
  void add_router(ParameterTable& table, const std::string& name) const;
  void add_experts(ParameterTable& table, const std::string& name) const;

  /// Rows on their way to their experts.
  struct Dispatched {
    PendingTensor rows;
    std::shared_ptr<const ExpertCounts> counts;
    DType dtype{};         // The rows', ahead of any rounding on their way.
    PendingTensor gates;   // Where weights multiply activations, or by node.
    PendingTensor chosen;  // By node.
  };
  /// Chooses experts, and keeps what backward needs. x [..., h]: this rank's tokens.
  void route(const Pass& pass, const Places& places, const Tensor& x, std::span<Tensor> kept) const;
  /// Then sends rows of x to them.
  [[nodiscard]] Dispatched dispatch(const Pass& pass, const Places& places, const Tensor& x,
                                    std::span<Tensor> kept) const;
  /// The experts' output for these rows, in x's shape.
  [[nodiscard]] Tensor finish(const Pass& pass, const Places& places, Dispatched dispatched,
                              const Shape& shape, std::span<Tensor> kept) const;
  /// Adds and reports all gradients, the experts' first, and returns that of x.
  [[nodiscard]] Tensor backward(const Pass& pass, const Places& places, const Tensor& dy,
                                const Tensor& x, std::span<Tensor> kept) const;

 private:
  [[nodiscard]] int router_size() const { return moe_.router.has_logit_bias ? 2 : 1; }
  [[nodiscard]] int latent_down(const Places& places) const {
    return places.router + router_size();
  }
  [[nodiscard]] int latent_up(const Places& places) const { return latent_down(places) + 1; }
  // The rows that experts read, one for each token: x, or its latent.
  [[nodiscard]] Tensor rows_of(const Pass& pass, const Places& places, const Tensor& x,
                               std::span<Tensor> kept) const;
  // From the gradient of the layer's output to that of the sum over a token's experts.
  [[nodiscard]] Tensor backward_latent_up(const Pass& pass, const Places& places, const Tensor& dy,
                                          std::span<Tensor> kept) const;
  // From the gradient of the rows that experts read to that of x.
  [[nodiscard]] Tensor backward_latent_down(const Pass& pass, const Places& places, const Tensor& d,
                                            const Tensor& x, std::span<Tensor> kept) const;
  using Counts = std::shared_ptr<const ExpertCounts>;
  [[nodiscard]] Counts count_tokens(const Pass& pass, const Tensor& chosen) const;
  // int32: [E] by expert, [E] by member and expert, [slices, E]; undefined where nobody else acts.
  struct Counted {
    Tensor sent;
    Tensor received;
    Tensor gathered;
  };
  [[nodiscard]] Counts decide_tokens(const Pass& pass, const Counted& counted,
                                     const Counts& planned) const;
  // With dispatch by node.
  [[nodiscard]] Counts count_tokens_by_node(const Pass& pass, const NodeDispatch& nodes,
                                            const Tensor& chosen, const Counts& planned) const;
  [[nodiscard]] Dispatched send_by_node(const Pass& pass, const NodeDispatch& nodes,
                                        const Places& places, const Tensor& x,
                                        Dispatched dispatched, std::span<Tensor> kept) const;
  [[nodiscard]] Tensor arrive_by_node(const Pass& pass, const NodeDispatch& nodes,
                                      Dispatched dispatched, std::span<Tensor> kept) const;
  // From what the experts made to the sum over a token's experts, in `shape`.
  [[nodiscard]] Tensor leave(const Pass& pass, Tensor made, const ExpertCounts& counts,
                             const Shape& shape, std::span<Tensor> kept) const;
  [[nodiscard]] Tensor leave_by_node(const Pass& pass, const NodeDispatch& nodes, Tensor made,
                                     const ExpertCounts& counts, const Shape& shape,
                                     std::span<Tensor> kept) const;
  // From the gradient of that sum to those of the rows that experts read, one for each token, and
  // of the gates.
  struct Returned {
    Tensor dx;
    Tensor gates;
  };
  [[nodiscard]] Returned backward_rows(const Pass& pass, const Places& places, Tensor dy,
                                       const Counts& counts, const Tensor& x,
                                       std::span<Tensor> kept) const;
  [[nodiscard]] Returned backward_by_node(const Pass& pass, const NodeDispatch& nodes,
                                          const Places& places, Tensor dy,
                                          const ExpertCounts& counts, std::span<Tensor> kept) const;
  [[nodiscard]] ExpertOrder order_of(const Pass& pass, std::int64_t tokens) const;
  [[nodiscard]] Tensor sizes_of(const Pass& pass, const ExpertCounts& counts) const;
  // Rows that are quantized together; none without low precision.
  [[nodiscard]] std::vector<std::int64_t> runs_of(const Pass& pass, const ExpertCounts& counts,
                                                  const Tensor& chosen) const;
  [[nodiscard]] Tensor activation_of(const Pass& pass, std::span<Tensor> kept, bool again) const;
  void activate(const Pass& pass, std::span<Tensor> kept) const;
  [[nodiscard]] Tensor backward_experts(const Pass& pass, const Places& places, Tensor rows,
                                        std::span<Tensor> kept) const;
  [[nodiscard]] Tensor choice_bias(const Pass& pass) const;
  [[nodiscard]] RouterWeights router_weights(const Pass& pass, const Places& places) const;
  // From the gradient of the gates to that of x, which `dx` has the rest of.
  [[nodiscard]] Tensor backward_router(const Pass& pass, const Places& places,
                                       const Tensor& gate_gradient, const Tensor& x, Tensor dx,
                                       std::span<Tensor> kept) const;
  [[nodiscard]] Tensor apply_expert(const Pass& pass, int k, const Tensor& x,
                                    const Tensor& sizes) const;
  [[nodiscard]] Tensor backward_expert(const Pass& pass, int k, const Tensor& dy,
                                       const Tensor& sizes) const;
  // dy [R, n] is for the bias, `made` of it for the weight.
  void finish_expert(const Pass& pass, int k, const Tensor& dy, const LinearGradient& made,
                     const Tensor& x, const Tensor& sizes) const;
  [[nodiscard]] double z_factor(const Pass& pass, std::int64_t rows) const;
  [[nodiscard]] BalanceSlope balance_slope(const Pass& pass, const Tensor& loads,
                                           std::int64_t rows) const;
  [[nodiscard]] DeclaredChoice declared_choice(const Pass& pass, std::int64_t rows) const;
  void tally(const Pass& pass, const ExpertCounts& demand, std::int64_t rows) const;

  enum ExpertWeight : int { w_gate, w_up, w_down };
  // Place of expert weight k among the experts' parameters.
  [[nodiscard]] int place_of(int k) const {
    const int place = activation_.is_gated() ? k : k - 1;
    return moe_.has_expert_bias ? 2 * place : place;
  }
  /// Among the blocks with experts.
  [[nodiscard]] int layer_of(const Pass& pass) const {
    return layer_of_block_[to_size(pass.block)];
  }

  MoeOptions moe_;
  ActivationForm activation_;
  std::vector<int> layer_of_block_;
  std::int64_t hidden_size_;
  std::int64_t seq_len_;
  bool captures_router_;  // In a CUDA graph.
  bool drops_activation_;
  bool weighs_activation_;
  ExpertCountsPlanner planner_;
};

}  // namespace shardsim
