#include "strategies/model/recompute.hpp"

#include <array>

namespace shardsim {

namespace {

constexpr std::array kModuleNames = {"layernorm",   "activation", "moe_act", "core_attn",
                                     "mla_up_proj", "mlp",        "moe",     "shared_experts"};

}  // namespace

std::span<const char* const> recompute_module_names() { return kModuleNames; }

RecomputeModules recompute_modules_of(std::string_view names) {
  return modules_of<RecomputeModule>(names, kModuleNames, "E0667");
}

std::string to_string(const RecomputeModules& modules) { return words_of(modules, kModuleNames); }

}  // namespace shardsim
