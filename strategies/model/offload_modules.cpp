#include "strategies/model/offload_modules.hpp"

#include <array>

#include "strategies/model/module_names.hpp"

namespace shardsim {

namespace {

constexpr std::array kOffloadNames = {"everything", "attn_norm", "qkv_linear", "core_attn",
                                      "attn_proj",  "mlp_norm",  "expert_fc1", "moe_act"};

}  // namespace

std::span<const char* const> offload_module_names() { return kOffloadNames; }

OffloadModules offload_modules_of(std::string_view names) {
  OffloadModules modules;
  for (const std::size_t place : places_of_modules(names, kOffloadNames, "E0684")) {
    modules.add(static_cast<OffloadModule>(place));
  }
  return modules;
}

}  // namespace shardsim
