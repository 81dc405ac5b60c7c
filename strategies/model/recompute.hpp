#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "strategies/model/module_names.hpp"

// Activations of a block that backward computes again instead of finding them kept.
namespace shardsim {

enum class Recompute : std::uint8_t {
  none,
  selective,  ///< Those of some parts: see RecomputeModule.
  /// All but the block's input: forward runs again, with its messages, before backward.
  full,
};

/// A part of a block. Its name is that of Megatron-Core's `recompute_modules`
/// (megatron/core/transformer/transformer_config.py @d98e8a64), but for `activation`.
enum class RecomputeModule : std::uint8_t {
  /// Norms in front of branches and of latents: outputs and statistics.
  layernorm,
  /// Outputs of activation functions: of dense MLPs, of shared experts, and what convolutions and
  /// gated norms return in gated DeltaNet and Mamba-2.
  activation,
  moe_act,         ///< Outputs of routed experts' activation functions.
  core_attn,       ///< All that attention keeps beside queries, keys, values and its output.
  mla_up_proj,     ///< Queries, keys and values that latent attention makes of its latents.
  mlp,             ///< All of a dense MLP but its input, with messages in its region.
  moe,             ///< The same of routed and shared experts: tokens travel again.
  shared_experts,  ///< The same of shared experts alone.
};

using RecomputeModules = ModuleSet<RecomputeModule>;

/// Much memory for little arithmetic: no products, no messages.
inline constexpr RecomputeModules kDefaultRecomputeModules = {
    RecomputeModule::layernorm, RecomputeModule::activation, RecomputeModule::moe_act};

/// In the order of RecomputeModule.
[[nodiscard]] std::span<const char* const> recompute_module_names();

/// Names with commas between them. Throws UsageError E0667 for a name that is none, twice the same,
/// or none at all.
[[nodiscard]] RecomputeModules recompute_modules_of(std::string_view names);
[[nodiscard]] std::string to_string(const RecomputeModules& modules);

}  // namespace shardsim
