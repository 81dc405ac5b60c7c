#include "strategies/model/graph_modules.hpp"

#include <array>
#include <cstddef>
#include <string>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

constexpr std::array kGraphNames = {"none", "full_iteration", "attn", "mlp", "mamba", "moe_router"};

}  // namespace

std::span<const char* const> graph_module_names() { return kGraphNames; }

GraphModules graph_modules_of(std::string_view names) {
  GraphModules modules = modules_of<GraphModule>(names, kGraphNames, "E0686");
  for (const GraphModule whole : {GraphModule::none, GraphModule::full_iteration}) {
    if (!modules.has(whole) || modules == GraphModules{whole}) continue;
    throw UsageError("E0686",
                     std::string(kGraphNames.at(static_cast<std::size_t>(whole))) +
                         " stands beside another module",
                     "write it alone, or modules without it");
  }
  modules.remove(GraphModule::none);
  return modules;
}

}  // namespace shardsim
