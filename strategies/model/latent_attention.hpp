#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "strategies/model/latent_rows.hpp"
#include "strategies/model/self_attention.hpp"

// Latent attention: queries, and keys with values, come from few numbers per token (latents), which
// a norm stands behind. A part of each query, and a part of the keys that all heads share, have
// rotary positions. With x [b, s, h], a heads of d = d_n + d_r and d_v, and N an RMS norm:
//
//   c_q = N(W_dq x) [r_q],  q = W_uq c_q [a d]            (r_q = 0: q = W_q x)
//   c_kv; k_r = W_dkv x [r_kv + d_r],  k_n; v = W_ukv N(c_kv) [a (d_n + d_v)],  k = k_n; k_r
//
// Tensor parallelism: down projections and norms are whole on every rank; up projections have a
// rank's heads. So c_q, c_kv and k_r enter the region: backward adds r_q + r_kv + d_r elements per
// token up over the ranks, instead of h. With sequence parallelism ranks compute these for their
// own tokens, the region's entrance gathers them, and gradients of down projections and norms are
// summed over the ranks (see ParameterTable). Without c_q, x enters in its place.
//
// Recomputation: layernorm drops c_q and N(c_kv) with their norms' statistics, mla_up_proj also
// what is made of them. Sources: DeepSeek-AI, "DeepSeek-V2" (2024), section 2.1; Megatron-LM's
// MLASelfAttention for the split over tensor-parallel ranks.
namespace shardsim {

class LatentAttention final : public SelfAttention {
 public:
  explicit LatentAttention(const ModelOptions& options);

  void add_parameters(ParameterTable& table, const std::string& name, int block) const override;
  [[nodiscard]] std::size_t num_inner() const override { return num_latent_saved; }
  [[nodiscard]] const char* columns() const override { return "attention.wq_up, wkv_up"; }
  [[nodiscard]] Row row(const Pass& /*pass*/) const override {
    return {wo_, false, "attention.wo"};
  }

 private:
  // raw_q: c_q before its norm. raw_k: c_kv before its norm, and k_r before it turns.
  enum LatentKept : std::size_t {
    latent_q = num_saved,  // c_q
    latent_kv,             // N(c_kv)
    num_latent_saved,
  };

  [[nodiscard]] Tensor enter(const Pass& pass, BranchInput& x,
                             std::span<Tensor> kept) const override;
  void forward_qkv(const Pass& pass, Tensor entered, BranchInput& x,
                   std::span<Tensor> kept) const override;
  void drop_heads(std::span<Tensor> kept) const override;
  void remake_heads(const Pass& pass, BranchInput& x, std::span<Tensor> kept) const override;
  [[nodiscard]] ColumnLinears backward_qkv(const Pass& pass, Qkv gradients,
                                           std::span<Tensor> kept) const override;
  [[nodiscard]] Tensor leave(const Pass& pass, std::span<ColumnLinear> readers, BranchInput& x,
                             std::span<Tensor> kept) const override;

  // Backward makes queries of it again.
  [[nodiscard]] bool reads_input() const override {
    return options_.recomputes(RecomputeModule::mla_up_proj) && !has_query_latent();
  }
  [[nodiscard]] bool has_query_latent() const { return options_.q_lora_rank > 0; }
  void drop_latents(std::span<Tensor> kept) const;
  // The tensor that queries read, with all tokens of the region. `read`: of the branch's input,
  // where there is no latent of queries.
  [[nodiscard]] Tensor enter_heads(const Pass& pass, Tensor read, std::span<Tensor> kept,
                                   RegionInput how) const;
  // Norms the latents that are not there.
  void make_latents(const Pass& pass, std::span<Tensor> kept) const;
  // Backward of keys' and values' projections, to the gradient of W_dkv x of own tokens.
  [[nodiscard]] Tensor backward_keys(const Pass& pass, std::span<Tensor> kept) const;
  [[nodiscard]] bool has_rotary(const Pass& pass) const {
    return options_.layer(pass.block).has_rotary;
  }
  // Queries have it behind their own part, the keys' shared part is all of it.
  [[nodiscard]] Rotary query_rotary(const Pass& pass) const;
  [[nodiscard]] Rotary key_rotary(const Pass& pass) const;

  LatentHead head_;
  // Parameters in a block, in order; backward reports them in reverse.
  int wq_down_ = 0, q_norm_ = 0;  // If there is a latent of queries.
  int wq_up_ = 0;                 // Or W_q.
  int wkv_down_ = 0, kv_norm_ = 0, wkv_up_ = 0;
  int wo_ = 0;
};

}  // namespace shardsim
