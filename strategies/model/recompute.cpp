#include "strategies/model/recompute.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

namespace shardsim {

namespace {

constexpr std::array kModuleNames = {"layernorm",   "activation", "moe_act", "core_attn",
                                     "mla_up_proj", "mlp",        "moe",     "shared_experts"};

[[noreturn]] void refuse_modules(const std::string& message) {
  std::string names;
  for (const char* name : kModuleNames) names += (names.empty() ? "" : ", ") + std::string(name);
  throw UsageError("E0667", message, "names are " + names + ", with commas between them");
}

}  // namespace

std::span<const char* const> recompute_module_names() { return kModuleNames; }

RecomputeModules recompute_modules_of(std::string_view names) {
  RecomputeModules modules;
  for (const std::string_view word : split_at(names, ',')) {
    const std::string name(word);
    const auto* const found = std::find(kModuleNames.begin(), kModuleNames.end(), name);
    if (found == kModuleNames.end()) {
      refuse_modules(name.empty() ? "a name of a module is empty"
                                  : "there is no module \"" + name + "\"");
    }
    const auto module = static_cast<RecomputeModule>(found - kModuleNames.begin());
    if (modules.has(module)) refuse_modules("the module " + name + " is there twice");
    modules.add(module);
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
