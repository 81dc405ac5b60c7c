#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "strategies/model/module_names.hpp"

// Parts of a block whose kernels the host launches as one CUDA graph, forward and backward.
namespace shardsim {

/// A part of a block. Names are those of Megatron-Core's `cuda_graph_modules`
/// (megatron/core/transformer/transformer_config.py @d98e8a64).
enum class GraphModule : std::uint8_t {
  none,            ///< A part that no name means.
  full_iteration,  ///< Forward and backward of all microbatches; not the optimizer's step.
  attn,            ///< A mixer but Mamba, with its norm and the sum behind it.
  mlp,             ///< A dense feed-forward, with its norm and the sum behind it.
  mamba,           ///< Mamba-2, with its norm and the sum behind it.
  moe_router,      ///< The norm ahead of experts, and their router; in backward this alone.
};
using GraphModules = ModuleSet<GraphModule>;

/// In the order of GraphModule.
[[nodiscard]] std::span<const char* const> graph_module_names();

/// Names with commas between them; "none" and "full_iteration" stand alone. Throws UsageError E0686
/// for anything else.
[[nodiscard]] GraphModules graph_modules_of(std::string_view names);

}  // namespace shardsim
