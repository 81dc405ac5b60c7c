#include <cstddef>
#include <string>

#include <fmt/format.h>

#include "sim/hardware/software.hpp"

#include "sim/experiment/assumptions.hpp"
#include "sim/experiment/experiment.hpp"

namespace shardsim {

namespace {

// The differences of a framework's kernels from one ideal kernel per operation.
Assumptions kernels_of(const Software& software, const std::string& attention_library) {
  Assumptions assumptions;
  const auto add = [&](const std::string& text, const char* source) {
    assumptions.push_back({fmt::format("system.software {}: {}", software.name, text), source});
  };
  for (std::size_t i = 0; i < kKernelFamilies; ++i) {
    const KernelUse& use = software.uses.at(i);
    if (use == kOneKernel) continue;
    add(fmt::format("{} is {} kernels, which move {:.4g} times its bytes",
                    name_of(static_cast<KernelFamily>(i)), use.kernels, use.traffic),
        source_of(software, static_cast<KernelFamily>(i)));
  }
  if (software.stores_scores()) {
    add(fmt::format("scores of attention are stored, and read or written {} times in forward and "
                    "{} in backward; with dropout {} and {} times more",
                    software.score_passes.forward, software.score_passes.backward,
                    software.dropout_passes.forward, software.dropout_passes.backward),
        software.source);
  } else if (attention_library != "software") {
    add("attention is " + attention_library + "'s", "system.attention_library");
  } else {
    add(fmt::format("attention is {}'s where the GPU has rows of it", name_of(software.attention)),
        software.source);
    add(fmt::format("attention runs at {} times the measured kernel's rate",
                    software.attention_share.value),
        software.attention_share.source);
  }
  const FrameworkMemory& memory = software.memory;
  add(fmt::format("bytes kept per score {} (with dropout {}), per element with dropout in a block "
                  "{}, per logit {}, and {} and {} more while the loss runs forward and backward",
                  memory.score_bytes, memory.score_bytes + software.dropped_score_bytes,
                  memory.mask_bytes, memory.loss_kept_bytes, memory.loss_forward_bytes,
                  memory.loss_backward_bytes),
      software.source);
  add(fmt::format("bytes kept per element of a norm {}, and of a feed-forward's activation {}, "
                  "beyond what an ideal kernel keeps",
                  memory.norm_kept_bytes, memory.activation_kept_bytes),
      source_of(software, KernelFamily::norm));
  add(fmt::format(
          "the gradient of a weight takes {} bytes per element more until it has been added "
          "to those of earlier microbatches",
          memory.apart_gradient_bytes),
      software.source);
  return assumptions;
}

// Habits of a framework in training, beside its kernels.
Assumptions habits_of(const Experiment& experiment, const Software& software) {
  Assumptions assumptions;
  if (software.recompute_stops_early &&
      experiment.scenario().training.recompute == Recompute::full) {
    assumptions.push_back(
        {"Recomputation of a dense block ends before its last product, where no dropout or norm "
         "follows it",
         "PyTorch, torch.utils.checkpoint.set_checkpoint_early_stop"});
  }
  if (experiment.options().sync.copies_units) {
    assumptions.push_back(
        {"Fully sharded weights are copied out of what was gathered, and "
         "gradients into what is reduced",
         software.source});
  }
  if (software.host_waits_for_transfers) {
    assumptions.push_back({"The host waits for every transfer between two ranks", software.source});
  }
  return assumptions;
}

// The times of the host that nobody gave: the source of those is the scenario's.
Assumptions host_times_of(const SystemSpec& system, const Software& software) {
  Assumptions assumptions;
  const auto add = [&](const char* field, double used, const SourcedNumber& known) {
    if (used == known.value) {
      assumptions.push_back({fmt::format("{} = {}", field, used), known.source});
    }
  };
  add("system.host_us_per_kernel", system.host_us_per_kernel, software.host_us_per_kernel);
  add("system.host_us_per_call", system.host_us_per_call, software.host_us_per_call);
  return assumptions;
}

}  // namespace

Assumptions software_assumptions(const Experiment& experiment) {
  const SystemSpec& system = experiment.scenario().system;
  const Software* const software = experiment.software();
  Assumptions assumptions;
  if (software == nullptr) {
    assumptions.push_back(
        {"Every operation is one kernel that moves its bytes once, whatever framework runs it",
         "modelling choice: system.software none"});
  } else {
    assumptions = kernels_of(*software, system.attention_library);
    append_assumptions(assumptions, habits_of(experiment, *software));
  }
  const bool host_takes_time =
      system.host_us_per_kernel.peek() > 0.0 || system.host_us_per_call.peek() > 0.0;
  if (system.cuda_launch_blocking && host_takes_time) {
    assumptions.push_back(
        {"The host waits for every kernel and for what it has posted when that is waited for; "
         "posting itself does not wait",
         "system.cuda_launch_blocking; docs/decisions/0036-software.md"});
  }
  if (software != nullptr) append_assumptions(assumptions, host_times_of(system, *software));
  return assumptions;
}

}  // namespace shardsim
