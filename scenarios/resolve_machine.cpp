#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "strategies/model/graph_modules.hpp"
#include "strategies/model/layer_options.hpp"
#include "strategies/model/recompute.hpp"

#include "scenarios/resolve.hpp"
#include "scenarios/source_text.hpp"

// Checks of choices about a machine that the model decides, too: its power, and CUDA graphs.
namespace shardsim {

namespace {

constexpr const char* kLimit = "system.device.power_limit_w";
constexpr const char* kGraphs = "system.cuda_graphs";
// Published devices agree with the cube root down to this share of their power (decision 0087).
constexpr double kLeastShare = 0.7;

// Tokens of experts are counted on the host, which a graph of everything would have to ask.
bool counts_tokens(const ModelSpec& model) {
  return model.num_experts > 0 && model.moe_capacity_factor == 0.0;
}

struct Presence {
  GraphModule module;
  bool is_there;
};

// The first captured module that no layer has; null: all are there.
const char* absent_module(const ModelSpec& model, const GraphModules& graphs) {
  const bool has_blocks = model.family != ModelFamily::mlp;
  bool has_attn = false;
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer) {
    const Mixer mixer = model.mixer_of(layer);
    if (mixer != Mixer::mamba && mixer != Mixer::none) has_attn = true;
  }
  for (const Presence& each :
       {Presence{GraphModule::attn, has_blocks && has_attn},
        Presence{GraphModule::mlp, has_blocks && model.layers_with_dense() > 0},
        Presence{GraphModule::mamba, has_blocks && model.layers_mixed_by(Mixer::mamba) > 0},
        Presence{GraphModule::moe_router, model.num_experts > 0}}) {
    if (graphs.has(each.module) && !each.is_there) {
      return graph_module_names()[static_cast<std::size_t>(each.module)];
    }
  }
  return nullptr;
}

// A region with two of them is captured with both.
bool cuts_region(const ModelSpec& model, const GraphModules& graphs) {
  const bool has_attn = graphs.has(GraphModule::attn);
  if (model.parallel_block && has_attn != graphs.has(GraphModule::mlp)) return true;
  const std::vector<LayerSpec>& layers = model.layers;
  const bool has_both = std::ranges::any_of(
      layers, [](const LayerSpec& layer) { return layer.mixer == Mixer::attention_mamba; });
  return has_both && has_attn != graphs.has(GraphModule::mamba);
}

// REQUIRES: all fields that it reads are good. That a copy to the host and full recomputation do
// not go with modules is Megatron-LM's rule, too (d98e8a64,
// megatron/core/transformer/transformer_config.py, __post_init__).
void check_graphs(Reading& r, const GraphModules& graphs) {
  const auto refuse = [&](const std::string& message, const std::string& fix) {
    r.problem("E0227", kGraphs, message, fix);
  };
  const bool is_whole = graphs.has(GraphModule::full_iteration);
  if (r.scenario.system.cuda_launch_blocking) {
    refuse("cuda_launch_blocking waits for every kernel, and a graph is many",
           "leave out cuda_graphs or cuda_launch_blocking");
  }
  if (const char* const absent = absent_module(r.scenario.model, graphs)) {
    refuse(std::string("no layer of the model is ") + absent, std::string("leave out ") + absent);
  }
  if (is_whole && counts_tokens(r.scenario.model)) {
    refuse("experts get as many tokens as choose them, which the host has to know in each layer",
           "capture moe_router, or give model.moe_capacity_factor");
  }
  if (is_whole) return;
  if (cuts_region(r.scenario.model, graphs)) {
    refuse("branches beside each other are one region, of which a part cannot be a graph",
           "name both of them, or neither");
  }
  const ParallelismSpec& p = r.scenario.parallelism;
  if (p.offloads_activations() && p.offload_modules == "everything") {
    refuse("graphs of modules cannot copy all activations to the host",
           "use full_iteration, or name parallelism.offload_modules");
  }
  if (r.scenario.training.recompute == Recompute::full) {
    refuse("recompute full runs whole blocks again, and these are not captured",
           "use full_iteration, or recompute selective");
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
  } else if (device.power_limit_w.peek() < kLeastShare * device.power_w.peek()) {
    r.scenario.warnings.push_back(fmt::format(
        "{} is {:.0f} % of power_w: below {:.0f} % devices are slower than the cube "
        "root says, which is what is priced",
        kLimit, 100.0 * device.power_limit_w.peek() / device.power_w.peek(), 100.0 * kLeastShare));
  }
}

void resolve_graphs(Reading& r) {
  if (!r.good(kGraphs)) return;
  try {
    const GraphModules graphs = graph_modules_of(r.scenario.system.cuda_graphs);
    if (graphs.empty()) return;
    if (r.all_good({"training.recompute", "model.num_experts", "model.moe_capacity_factor",
                    "model.num_layers", "parallelism.offload_layers", "parallelism.offload_modules",
                    "system.cuda_launch_blocking"})) {
      check_graphs(r, graphs);
    }
  } catch (const UsageError& error) {
    r.problem(error.code(), kGraphs, error.what(), error.fix());
  }
}

}  // namespace shardsim
