#include "sim/app/cost_assumptions.hpp"

#include <string>

#include <fmt/format.h>

#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/software.hpp"

namespace shardsim {

namespace {

// What an operation costs, and the constants that say so.
Assumptions costs(const Scenario& scenario) {
  if (!prices_shapes(scenario)) {
    return {
        {"An operation takes max(flops / achieved peak, bytes / achieved bandwidth) + one launch",
         "Roofline, Williams et al. 2009; one achieved share per device, whatever the shape"}};
  }
  Assumptions assumptions = {
      {"Matrix products take their waves of tiles, fused attention its blocks of queries, but no "
       "less than their bytes; other operations take their bytes; each takes one launch",
       "docs/decisions/0032-kernel-cost.md"}};
  const std::string& name = scenario.system.device.kernels;
  for (const NamedConstant& constant : constants_of(*find_kernel_constants(name))) {
    assumptions.push_back({fmt::format("system.device.kernels {}: {} = {}", name, constant.name,
                                       constant.number.value),
                           constant.number.source});
  }
  return assumptions;
}

// What of a framework's kernels differs from one ideal kernel per operation.
Assumptions kernels_of(const Software& software) {
  Assumptions assumptions;
  const auto add = [&](const std::string& text, const char* source) {
    assumptions.push_back({fmt::format("system.software {}: {}", software.name, text), source});
  };
  for (std::size_t i = 0; i < kKernelFamilies; ++i) {
    const KernelUse& use = software.uses.at(i);
    if (use == kOneKernel) continue;
    add(fmt::format("{} is {} kernels, which move {:.4g} times its bytes",
                    name_of(static_cast<KernelFamily>(i)), use.kernels, use.traffic),
        software.source);
  }
  if (software.stores_scores()) {
    add(fmt::format("scores of attention are stored, and read or written {} times in forward and "
                    "{} in backward; with dropout {} and {} times more",
                    software.score_passes.forward, software.score_passes.backward,
                    software.dropout_passes.forward, software.dropout_passes.backward),
        software.source);
  } else {
    add(fmt::format("attention reaches {} of the GPU's rate", software.attention_share.value),
        software.attention_share.source);
  }
  const FrameworkMemory& memory = software.memory;
  add(fmt::format(
          "bytes kept per score {} (with dropout {}), per element with dropout in a block {}, per "
          "logit {}, and {} and {} more while the loss runs forward and backward",
          memory.score_bytes, memory.score_bytes + software.dropped_score_bytes, memory.mask_bytes,
          memory.loss_kept_bytes, memory.loss_forward_bytes, memory.loss_backward_bytes),
      software.source);
  return assumptions;
}

// What runs on the device, and how much of the host's time that takes.
void add_software(const Scenario& scenario, Assumptions& assumptions) {
  const SystemSpec& system = scenario.system;
  const Software* software = find_software(system.software);
  if (software == nullptr) {
    assumptions.push_back(
        {"Every operation is one kernel that moves its bytes once, whatever "
         "framework runs it",
         "modelling choice: system.software none"});
  } else {
    append_assumptions(assumptions, kernels_of(*software));
    if (software->host_waits_for_transfers) {
      assumptions.push_back(
          {"The host waits for every transfer between two ranks", software->source});
    }
  }
  const bool host_takes_time =
      system.host_us_per_kernel.peek() > 0.0 || system.host_us_per_call.peek() > 0.0;
  if (system.cuda_launch_blocking && host_takes_time) {
    assumptions.push_back(
        {"The host waits for every kernel and for what it has posted when that is waited for; "
         "posting itself does not wait",
         "system.cuda_launch_blocking; docs/decisions/0036-software.md"});
  }
  const auto add_host = [&](const char* field, double used, const SourcedNumber& known) {
    if (used != known.value) return;  // Given: its source is the scenario's.
    assumptions.push_back({fmt::format("{} = {}", field, used), known.source});
  };
  if (software == nullptr) return;
  add_host("system.host_us_per_kernel", system.host_us_per_kernel, software->host_us_per_kernel);
  add_host("system.host_us_per_call", system.host_us_per_call, software->host_us_per_call);
}

}  // namespace

void append_assumptions(Assumptions& assumptions, const Assumptions& more) {
  assumptions.insert(assumptions.end(), more.begin(), more.end());
}

bool prices_shapes(const Scenario& scenario) { return scenario.system.kernel_model == "shapes"; }

std::vector<Assumption> price_of_computing(const Scenario& scenario) {
  Assumptions assumptions = costs(scenario);
  add_software(scenario, assumptions);
  return assumptions;
}

Assumption beside_communication(const Scenario& scenario) {
  if (!prices_shapes(scenario) || !scenario.system.overlap_slows_computing) {
    return {
        "Computing does not slow down beside communication: neither takes multiprocessors or "
        "memory bandwidth from the other",
        "modelling choice; favours overlap"};
  }
  return {
      "Computing slows down beside collectives by beside_communication of the GPU's constants; "
      "collectives do not",
      "modelling choice; docs/decisions/0036-software.md"};
}

}  // namespace shardsim
