#include "strategies/model/recompute.hpp"

#include <array>
#include <cstddef>

#include "strategies/model/module_names.hpp"

namespace shardsim {

namespace {

constexpr std::array kModuleNames = {"layernorm",   "activation", "moe_act", "core_attn",
                                     "mla_up_proj", "mlp",        "moe",     "shared_experts"};

}  // namespace

std::span<const char* const> recompute_module_names() { return kModuleNames; }

RecomputeModules recompute_modules_of(std::string_view names) {
  RecomputeModules modules;
  for (const std::size_t place : places_of_modules(names, kModuleNames, "E0667")) {
    modules.add(static_cast<RecomputeModule>(place));
  }
  return modules;
}

std::string to_string(const RecomputeModules& modules) {
  std::string names;
  for (std::size_t i = 0; i < kModuleNames.size(); ++i) {
    if (!modules.has(static_cast<RecomputeModule>(i))) continue;
    names += (names.empty() ? "" : ",") + std::string(kModuleNames[i]);
  }
  return names;
}

}  // namespace shardsim
