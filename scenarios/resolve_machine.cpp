#include <string>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "strategies/model/graph_modules.hpp"
#include "strategies/model/recompute.hpp"

#include "scenarios/resolve.hpp"
#include "scenarios/source_text.hpp"

// Checks of choices about a machine that the model decides, too: its power, and CUDA graphs.
namespace shardsim {

namespace {

constexpr const char* kLimit = "system.device.power_limit_w";
constexpr const char* kGraphs = "system.cuda_graphs";

// Tokens of experts are counted on the host, which a graph of everything would have to ask.
bool counts_tokens(const ModelSpec& model) {
  return model.num_experts > 0 && model.moe_capacity_factor == 0.0;
}

bool recomputes_experts(const TrainingSpec& training) {
  return training.recompute == Recompute::selective &&
         recompute_modules_of(training.recompute_modules).has(RecomputeModule::moe);
}

// REQUIRES: all fields that it reads are good. Source: NVIDIA/Megatron-LM d98e8a64,
// megatron/core/transformer/transformer_config.py, __post_init__.
void check_graphs(Reading& r, const GraphModules& graphs) {
  const auto refuse = [&](const std::string& message, const std::string& fix) {
    r.problem("E0227", kGraphs, message, fix);
  };
  const bool is_whole = graphs.has(GraphModule::full_iteration);
  if (r.scenario.parallelism.offloads_activations()) {
    refuse("a graph cannot copy activations to the host",
           "leave out cuda_graphs or offload_layers");
  }
  if (is_whole && counts_tokens(r.scenario.model)) {
    refuse("experts get as many tokens as choose them, which the host has to know in each layer",
           "capture moe_router, or give model.moe_capacity_factor");
  }
  if (graphs.has(GraphModule::moe_router) && r.scenario.model.num_experts == 0) {
    refuse("the model has no experts, and so no router", "leave out moe_router");
  }
  if (!is_whole && r.scenario.training.recompute == Recompute::full) {
    refuse("recompute full runs whole blocks again, and these are not captured",
           "use full_iteration, or recompute selective");
  }
  if (graphs.has(GraphModule::moe_router) && recomputes_experts(r.scenario.training)) {
    refuse("the router is captured, and recompute_modules has moe, which runs it again",
           "leave out moe_router or moe");
  }
}

}  // namespace

void resolve_power(Reading& r) {
  const DeviceSpec& device = r.scenario.system.device;
  if (!r.all_good({kLimit, "system.device.power_w"}) || device.power_limit_w.peek() == 0.0) return;
  if (device.power_w.peek() == 0.0) {
    return r.problem("E0228", kLimit, "the power at which the device has its rates is not known",
                     "give system.device.power_w, in watts");
  }
  if (device.power_limit_w.peek() > device.power_w.peek()) {
    r.problem("E0228", kLimit,
              fmt::format("{} W are more than the {} W at which the device has its rates",
                          device.power_limit_w.peek(), device.power_w.peek()),
              "give a lower limit, or leave it out");
  }
}

void resolve_graphs(Reading& r) {
  if (!r.good(kGraphs)) return;
  try {
    const GraphModules graphs = graph_modules_of(r.scenario.system.cuda_graphs);
    if (graphs.empty()) return;
    if (r.all_good({"training.recompute", "training.recompute_modules", "model.num_experts",
                    "model.moe_capacity_factor", "parallelism.offload_layers"})) {
      check_graphs(r, graphs);
    }
  } catch (const UsageError& error) {
    r.problem(error.code(), kGraphs, error.what(), error.fix());
  }
}

}  // namespace shardsim
