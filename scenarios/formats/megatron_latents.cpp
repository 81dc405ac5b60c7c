#include <cmath>
#include <string>
#include <vector>

#include "scenarios/formats/megatron_model.hpp"

namespace shardsim {

bool import_megatron_latents(MegatronArguments& arguments, const MegatronPattern& pattern,
                             Import& import, std::vector<std::string>& limits) {
  // Letters say it, and imply the flag.
  const bool is_told = arguments.truth("multi_latent_attention");
  if (!(pattern.is_there() ? pattern.has('+') : is_told)) return false;
  // Defaults of megatron/training/arguments.py.
  struct Size {
    NamePair names;
    std::int64_t otherwise;
    bool is_of_scores;  // Queries and keys have these elements.
  };
  double width = 0.0;
  for (const Size& size :
       {Size{megatron::kKeyLatent, 32, false}, Size{megatron::kOwnHead, 128, true},
        Size{megatron::kTurnedHead, 64, true}, Size{megatron::kValueHead, 128, false}}) {
    const auto given = take_integer(arguments, size.names, kForeignSize, import);
    if (!given) {
      import.derive({size.names.theirs, "(not there)"}, size.names.ours, size.otherwise,
                    "Megatron-LM's default");
    }
    if (size.is_of_scores) width += static_cast<double>(given.value_or(size.otherwise));
  }
  take_integer(arguments, megatron::kQueryLatent, kForeignSize, import);
  if (!arguments.truth("qk_layernorm")) {
    limits.emplace_back("multi_latent_attention without qk_layernorm: latents without norms");
  }
  // MultiLatentAttention's softmax_scale, whatever turns.
  const double factor = arguments.number("rotary_scaling_factor").value_or(1.0);
  const double mscale_all = arguments.number("mscale_all_dim").value_or(0.0);
  if (factor > 1.0 && mscale_all != 0.0) {
    const double mscale = 0.1 * mscale_all * std::log(factor) + 1.0;
    import.derive(arguments.at("mscale_all_dim"), "model.attention_scale",
                  mscale * mscale / std::sqrt(width), "mscale^2 / sqrt(elements of a head)");
  }
  return true;
}

}  // namespace shardsim
