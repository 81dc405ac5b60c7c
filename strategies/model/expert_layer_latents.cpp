#include <utility>

#include "strategies/model/expert_layer.hpp"

// The latents of a layer of experts: the projection in front of them, and the one behind.
namespace shardsim {

void ExpertLayer::add_latents(ParameterTable& table, const std::string& name) const {
  if (!moe_.has_latent()) return;
  const Init init{Init::Kind::bell, kInitScale};
  table.never_quantize(table.add(name + ".latents.down", {moe_.latent_size, hidden_size_}, init));
  table.never_quantize(table.add(name + ".latents.up", {hidden_size_, moe_.latent_size}, init));
}

Tensor ExpertLayer::rows_of(const Pass& pass, const Places& places, const Tensor& x,
                            std::span<Tensor> kept) const {
  if (!moe_.has_latent()) return x;
  Tensor latents = apply_linear(pass, latent_down(places), x);  // (..., l)
  if (moe_.router.weighs_input) kept[latent_input] = latents;
  return latents;
}

Tensor ExpertLayer::backward_latent_up(const Pass& pass, const Places& places, const Tensor& dy,
                                       std::span<Tensor> kept) const {
  if (!moe_.has_latent()) return dy;
  finish_linear(pass, latent_up(places), dy, std::exchange(kept[latent_output], Tensor()));
  return linear_backward_input(pass.runtime, dy, pass.weight(latent_up(places)));
}

Tensor ExpertLayer::backward_latent_down(const Pass& pass, const Places& places, const Tensor& d,
                                         const Tensor& x, std::span<Tensor> kept) const {
  kept[latent_input] = {};
  finish_linear(pass, latent_down(places), d, x);
  return linear_backward_input(pass.runtime, d, pass.weight(latent_down(places)));
}

}  // namespace shardsim
