#include <algorithm>

#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/software.hpp"

// Written from sim/hardware/kernels/gpus/*.json.
#include "sim/hardware/gpu_table.hpp"

namespace shardsim {

namespace {

constexpr std::array<std::string_view, kAttentionLibraries> kLibraryNames = {"flash2", "flash3",
                                                                             "cudnn"};
// In the order of AttentionLibrary, AttentionKernels and AttentionPass.
constexpr std::array<const char*, 8 * kAttentionLibraries> kAttentionNames = {
    "flash2_forward_rate",          "flash2_forward_tail",          "flash2_forward_head_halving",
    "flash2_forward_keys_halving",  "flash2_backward_rate",         "flash2_backward_tail",
    "flash2_backward_head_halving", "flash2_backward_keys_halving", "flash3_forward_rate",
    "flash3_forward_tail",          "flash3_forward_head_halving",  "flash3_forward_keys_halving",
    "flash3_backward_rate",         "flash3_backward_tail",         "flash3_backward_head_halving",
    "flash3_backward_keys_halving", "cudnn_forward_rate",           "cudnn_forward_tail",
    "cudnn_forward_head_halving",   "cudnn_forward_keys_halving",   "cudnn_backward_rate",
    "cudnn_backward_tail",          "cudnn_backward_head_halving",  "cudnn_backward_keys_halving"};

// All constants, with their names: visit(name, number, library).
template <class Constants, class Visit>
void for_each_constant(Constants& of, const Visit& visit) {
  const std::optional<AttentionLibrary> none;
  visit("multiprocessors", of.multiprocessors, none);
  visit("matmul_rate", of.matmul_rate, none);
  visit("tile_halving", of.tile_halving, none);
  visit("tile_overhead_s", of.tile_overhead_s, none);
  visit("epilogue_exposed", of.epilogue_exposed, none);
  visit("unaligned_share", of.unaligned_share, none);
  visit("sustained_share", of.sustained_share, none);
  visit("fp8_share", of.fp8_share, none);
  visit("fp8_block_share", of.fp8_block_share, none);
  visit("fp4_share", of.fp4_share, none);
  visit("permutation_share", of.permutation_share, none);
  visit("cross_entropy_share", of.cross_entropy_share, none);
  visit("amax_share", of.amax_share, none);
  visit("quantize_share", of.quantize_share, none);
  visit("delta_rule_share", of.delta_rule_share, none);
  visit("beside_communication", of.beside_communication, none);
  const char* const* name = kAttentionNames.data();
  for (std::size_t library = 0; library < kAttentionLibraries; ++library) {
    auto& kernels = of.attention.at(library);
    for (auto* pass : {&kernels.forward, &kernels.backward}) {
      for (auto* number : {&pass->rate, &pass->tail, &pass->head_halving, &pass->keys_halving}) {
        visit(*name++, *number, std::optional(static_cast<AttentionLibrary>(library)));
      }
    }
  }
}

}  // namespace

SourcedNumber* find_constant(KernelConstants& in, std::string_view name) {
  SourcedNumber* found = nullptr;
  for_each_constant(in, [&](const char* each, SourcedNumber& number, auto /*library*/) {
    if (each == name) found = &number;
  });
  return found;
}

std::array<NamedConstant, kKernelConstants> constants_of(const KernelConstants& of) {
  std::array<NamedConstant, kKernelConstants> constants{};
  std::size_t place = 0;
  for_each_constant(of, [&](const char* name, const SourcedNumber& number, auto library) {
    constants.at(place++) = {name, number, library};
  });
  return constants;
}

std::string_view name_of(AttentionLibrary library) {
  return kLibraryNames.at(static_cast<std::size_t>(library));
}

std::optional<AttentionLibrary> find_attention_library(std::string_view name) {
  const auto* const found = std::ranges::find(kLibraryNames, name);
  if (found == kLibraryNames.end()) return std::nullopt;
  return static_cast<AttentionLibrary>(found - kLibraryNames.begin());
}

AttentionLibrary KernelConstants::library_for(AttentionLibrary wanted) const {
  if (has(wanted)) return wanted;
  if (has(AttentionLibrary::cudnn)) return AttentionLibrary::cudnn;
  return has(AttentionLibrary::flash3) ? AttentionLibrary::flash3 : AttentionLibrary::flash2;
}

AttentionLibrary attention_library_of(const Software* software, const KernelConstants& kernels) {
  return kernels.library_for(software == nullptr ? AttentionLibrary::cudnn : software->attention);
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
