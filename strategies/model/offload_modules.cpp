#include "strategies/model/offload_modules.hpp"

#include <array>

namespace shardsim {

namespace {

constexpr std::array kOffloadNames = {"everything", "attn_norm", "qkv_linear", "core_attn",
                                      "attn_proj",  "mlp_norm",  "expert_fc1", "moe_act"};

}  // namespace

std::span<const char* const> offload_module_names() { return kOffloadNames; }

OffloadModules offload_modules_of(std::string_view names) {
  return modules_of<OffloadModule>(names, kOffloadNames, "E0684");
}

}  // namespace shardsim
