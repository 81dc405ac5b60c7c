#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "strategies/model/module_names.hpp"

// Parts of a block by whose inputs kept activations are chosen to go to host memory.
namespace shardsim {

/// A part of a block: what stays for its input may go. Names are those of Megatron-Core's
/// `offload_modules` (megatron/core/transformer/transformer_config.py @d98e8a64), but for
/// `everything`.
enum class OffloadModule : std::uint8_t {
  everything,  ///< All that a block keeps, as Transformer Engine's cpu_offload does.
  attn_norm,   ///< The stream ahead of a mixer's norm.
  qkv_linear,  ///< Attention's input.
  core_attn,   ///< Queries, keys and values.
  attn_proj,   ///< Attention's output.
  mlp_norm,    ///< The stream ahead of a feed-forward's norm.
  expert_fc1,  ///< Rows that experts read.
  moe_act,     ///< Gate and up of experts.
};

/// A set of them. `everything` has all others in it.
class OffloadModules : public ModuleSet<OffloadModule> {
 public:
  constexpr OffloadModules() = default;
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr OffloadModules(const ModuleSet<OffloadModule>& modules) : ModuleSet(modules) {}
  [[nodiscard]] constexpr bool has(OffloadModule module) const {
    return ModuleSet::has(module) || ModuleSet::has(OffloadModule::everything);
  }
};

/// In the order of OffloadModule.
[[nodiscard]] std::span<const char* const> offload_module_names();

/// Names with commas between them. Throws UsageError E0684 for a name that is none, twice the same,
/// or none at all.
[[nodiscard]] OffloadModules offload_modules_of(std::string_view names);

}  // namespace shardsim
