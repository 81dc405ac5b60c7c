#include "sim/hardware/kernels/kernel_constants.hpp"

// Written from sim/hardware/kernels/gpus/*.json.
#include "sim/hardware/gpu_table.hpp"

namespace shardsim {

std::array<NamedConstant, kKernelConstants> constants_of(const KernelConstants& of) {
  return {{{"multiprocessors", of.multiprocessors},
           {"matmul_rate", of.matmul_rate},
           {"tile_halving", of.tile_halving},
           {"tile_overhead_s", of.tile_overhead_s},
           {"epilogue_exposed", of.epilogue_exposed},
           {"unaligned_share", of.unaligned_share},
           {"attention_forward_rate", of.attention_forward_rate},
           {"attention_backward_rate", of.attention_backward_rate},
           {"attention_head_halving", of.attention_head_halving},
           {"attention_keys_halving", of.attention_keys_halving},
           {"attention_forward_tail", of.attention_forward_tail},
           {"attention_backward_tail", of.attention_backward_tail},
           {"fp8_share", of.fp8_share},
           {"fp8_block_share", of.fp8_block_share},
           {"fp4_share", of.fp4_share},
           {"permutation_share", of.permutation_share},
           {"cross_entropy_share", of.cross_entropy_share},
           {"amax_share", of.amax_share},
           {"quantize_share", of.quantize_share},
           {"beside_communication", of.beside_communication}}};
}

std::span<const KernelConstants> all_kernel_constants() { return kKernelTable; }

const KernelConstants* find_kernel_constants(std::string_view name) {
  for (const KernelConstants& constants : kKernelTable) {
    if (constants.name == name) return &constants;
  }
  return nullptr;
}

SourcedNumber compute_capability_of(std::string_view name) {
  std::size_t row = 0;
  while (kKernelTable.at(row).name != name) ++row;
  return {kCapabilityTable.at(row), "NVIDIA, \"CUDA GPU Compute Capability\""};
}

}  // namespace shardsim
